//! Identifies packages from the names that people write and from the commands that clients run. Only the part of a
//! command up to the package name matters; the server's own arguments are not examined.

use crate::package_index::{PackageRegistry, is_same_package_name, normalized_name};

/// Maximum length of a package name.
const MAX_PACKAGE_NAME_BYTES: usize = 214;

/// A reference to a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageReference {
    /// Registry, if given.
    pub source: Option<PackageRegistry>,
    /// Name in the registry.
    pub name: String,
    /// Version, if given.
    pub version: Option<String>,
    /// Whether the version is a range, such as `>=1.2`.
    pub is_range: bool,
    /// Whether the reference is only a guess, because the command may run something other than this published package.
    pub is_guess: bool,
}

impl PackageReference {
    /// Parses `npm:@scope/name@1.2`, `pypi:name==1.2`, `name[extra]`, or just a name.
    ///
    /// # Examples
    /// ```
    /// use gatelodge_catalogue::{PackageReference, PackageRegistry};
    ///
    /// let package = PackageReference::read("npm:@acme/files@1.2.3").expect("a package");
    /// assert_eq!(package.source, Some(PackageRegistry::Npm));
    /// assert_eq!(package.name, "@acme/files");
    /// assert_eq!(package.version.as_deref(), Some("1.2.3"));
    /// ```
    pub fn read(text: &str) -> Option<Self> {
        let (source, rest) = match text.split_once(':') {
            Some(("npm", rest)) => (Some(PackageRegistry::Npm), rest),
            Some(("pypi", rest)) => (Some(PackageRegistry::Pypi), rest),
            Some(_) => return None,
            None => (None, text),
        };
        let (scope, rest) = match rest.strip_prefix('@') {
            Some(scoped) => {
                let (scope, rest) = scoped.split_once('/')?;
                (format!("@{scope}/"), rest)
            }
            None => (String::new(), rest),
        };
        let end = rest.find(['@', '=', '<', '>', '~', '!', '[', ';', ' ']).unwrap_or(rest.len());
        let (name, suffix) = rest.split_at_checked(end)?;
        let version = suffix.trim_start_matches(|letter| letter != '@' && letter != '=').trim_start_matches(['@', '=']);
        let operator = suffix.rsplit(']').next().unwrap_or_default();
        let is_range = !operator.is_empty() && !operator.starts_with('@') && !operator.starts_with("==");
        let source = if scope.is_empty() { source } else { Some(source.unwrap_or(PackageRegistry::Npm)) };
        let named = format!("{scope}{name}");
        let version = Some(version.to_owned()).filter(|version| !version.is_empty() && version != "latest");
        let own = Self { source, name: named, version, is_range, is_guess: false };
        (is_package_name(&own.name) && is_version_suffix(suffix)).then_some(own)
    }

    /// Returns the package that a command runs when these environment variables are set, or `None` if it cannot be
    /// determined.
    pub fn of_command<'v>(words: &[String], variables: impl IntoIterator<Item = &'v str>) -> Option<Self> {
        let own = Self::parse_command(words)?;
        // A relative path is a file next to the configuration, whatever its name.
        let is_relative = words.first().is_some_and(|program| program.contains(['/', '\\']) && !is_absolute(program));
        let is_guess = own.is_guess || is_relative || variables.into_iter().any(can_override_package);
        Some(Self { is_guess, ..own })
    }

    /// Returns whether both references are to the same package.
    pub fn is_same_package(&self, other: &Self) -> bool {
        self.source == other.source && is_same_package_name(self.source, &self.name, &other.name)
    }

    fn parse_command(words: &[String]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        let program = program_name(program);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match (program, words.as_slice()) {
            ("npx" | "bunx", rest) | ("bun", ["x", rest @ ..]) => NPX_RUNNER.find_package(rest),
            ("pnpx", rest) | ("pnpm", ["dlx", rest @ ..]) => NPM_RUNNER.find_package(rest),
            ("npm", ["exec" | "x", rest @ ..]) => NPM_EXEC_RUNNER.find_package(rest),
            ("yarn", ["dlx", rest @ ..]) => NPX_RUNNER.find_package(rest),
            ("uvx", rest) | ("uv", ["tool", "run", rest @ ..]) => UVX_RUNNER.find_package(rest),
            ("pipx", ["run", rest @ ..]) => PIPX_RUNNER.find_package(rest),
            ("deno", ["run", rest @ ..]) => DENO_RUNNER.find_package(rest),
            // Some other program runs; only the additional packages are known.
            ("uv", ["run", "--with", package, ..]) => Self::guess_from_word(Some(PackageRegistry::Pypi), package),
            // A module usually has the name of its package.
            (program, ["-m", module, ..]) if program.starts_with("python") => {
                Self::guess_from_word(Some(PackageRegistry::Pypi), module.split('.').next()?)
            }
            // A script in an installed package. Its version is unknown.
            ("node", [path, ..]) => package_of_node_module(path),
            // On Windows, clients start commands through the shell.
            ("cmd", [flag, ..]) if flag.eq_ignore_ascii_case("/c") => {
                let is_plain = words.iter().all(|word| !word.contains(['&', '|', '<', '>', '^', '%']));
                is_plain.then(|| Self::of_command(arguments.get(1..)?, []))?
            }
            ("npm" | "pnpm" | "yarn" | "bun" | "uv" | "pipx" | "deno" | "cmd", _) => None,
            // So does an installed program.
            (program, _) => {
                Self::guess_from_word(None, program).filter(|own| own.version.is_none() && own.name.contains("mcp"))
            }
        }
    }

    /// Returns the version if it denotes exactly one version in this registry. Returns `None` for a range, a tag, or no
    /// version.
    pub fn exact_version(&self, source: PackageRegistry) -> Option<&str> {
        let version = self.version.as_deref().filter(|_| !self.is_range)?;
        let is_exact = version.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit())
            && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+' | b'!'))
            && !version.split('.').any(|part| part == "x" || part == "X")
            // For npm, 1.2 is a range.
            && (source == PackageRegistry::Pypi || version.split('.').count() >= 3);
        is_exact.then_some(version)
    }

    /// Compares the version with the indexed one. If no version is given, the result is `Same`, even though the newest
    /// version will run and may be later than the indexed one.
    pub fn compare_version(&self, source: PackageRegistry, read: &str) -> VersionComparison {
        let Some(version) = self.version.as_deref().filter(|_| !self.is_range) else {
            return if self.is_range { VersionComparison::Unknown } else { VersionComparison::Same };
        };
        let plain = |version: &str| {
            let version = version.strip_prefix('v').unwrap_or(version).to_ascii_lowercase();
            let ends = |text: &str| text.strip_suffix(".0").map(str::to_owned);
            // For Python packages, 1.0 and 1.0.0 are equal.
            let shorter = |text: String| std::iter::successors(Some(text), |text| ends(text)).last();
            if source == PackageRegistry::Pypi { shorter(version).unwrap_or_default() } else { version }
        };
        match self.exact_version(source).is_some() {
            _ if plain(version) == plain(read) => VersionComparison::Same,
            true => VersionComparison::Different,
            false => VersionComparison::Unknown,
        }
    }

    fn guess_from_word(source: Option<PackageRegistry>, word: &str) -> Option<Self> {
        let own = Self::read(word)?;
        Some(Self { source: source.or(own.source), is_guess: true, ..own })
    }
}

/// Result of comparing a version with the indexed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionComparison {
    /// The versions are equal.
    Same,
    /// The versions differ.
    Different,
    /// The result cannot be determined, because the version is a range or a tag.
    Unknown,
}

/// Returns whether an environment variable can cause something other than the published package to run.
fn can_override_package(variable: &str) -> bool {
    let name = variable.to_ascii_uppercase().replace('-', "_");
    let is_runner_variable = RUNNER_VARIABLE_PREFIXES.split(' ').any(|family| name.starts_with(family));
    list_contains(OVERRIDE_VARIABLES, &name) || is_runner_variable && !list_contains(HARMLESS_VARIABLES, &name)
}

fn is_absolute(program: &str) -> bool {
    program.starts_with(['/', '\\']) || program.get(1..3).is_some_and(|drive| matches!(drive, ":/" | ":\\"))
}

/// Returns the file name in a path, without a Windows extension.
fn program_name(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name)
}

/// A program that runs packages, described by its options before the package name. Options after the name mostly belong
/// to the server. If a command has an unlisted option, its package cannot be determined, because the option may or may
/// not take a value.
struct PackageRunner {
    source: PackageRegistry,
    /// Prefix that package names must have in a command, such as `npm:`.
    name_prefix: &'static str,
    /// Options without a value, separated by spaces.
    switches: &'static str,
    /// Options that take a value.
    value_options: &'static str,
    /// Options that select the interpreter. Selecting a version is harmless, but a path or another name can refer to
    /// any program.
    interpreter_options: &'static str,
    /// Options that specify the package. If one is given, the first argument that is not an option is a program in that
    /// package.
    package_options: &'static str,
    /// Options that take a value and can cause something other than the published package to run.
    override_options: &'static str,
    /// Whether the runner also parses options after the package name, up to `--`.
    parses_options_after_package: bool,
}

const NPM_RUNNER: PackageRunner = PackageRunner {
    source: PackageRegistry::Npm,
    name_prefix: "",
    switches: "-y --yes -q --quiet -s --silent -f --force -d --verbose --bun --offline --prefer-offline \
        --prefer-online --ignore-existing --ignore-scripts --legacy-peer-deps",
    value_options: "--loglevel --allow-build",
    interpreter_options: "",
    package_options: "--package",
    override_options: "--registry --prefix --userconfig --globalconfig --node-options -w --workspace --cache",
    parses_options_after_package: false,
};
const NPM_EXEC_RUNNER: PackageRunner = PackageRunner { parses_options_after_package: true, ..NPM_RUNNER };
/// Options of `npx` and similar runners. Unlike `npm exec`, these accept `-p` as short for `--package`.
const NPX_RUNNER: PackageRunner = PackageRunner { package_options: "-p --package", ..NPM_RUNNER };
const UVX_RUNNER: PackageRunner = PackageRunner {
    source: PackageRegistry::Pypi,
    name_prefix: "",
    switches: "-q --quiet -v --verbose -n --isolated --offline --refresh -U --upgrade --reinstall --native-tls \
        --managed-python",
    value_options: "--refresh-package --color --python-preference --prerelease",
    interpreter_options: "-p --python",
    package_options: "--from",
    override_options: "-w --with --with-editable --with-requirements --index --index-url --default-index -i \
        --extra-index-url -f --find-links -c --constraints --overrides --directory --project --env-file \
        --config-file --cache-dir",
    parses_options_after_package: false,
};
const PIPX_RUNNER: PackageRunner = PackageRunner {
    switches: "-q --quiet -v --verbose --pypackages --fetch-missing-python",
    value_options: "",
    interpreter_options: "--python",
    package_options: "--spec",
    override_options: "--with --index-url -i --pip-args",
    ..UVX_RUNNER
};
const DENO_RUNNER: PackageRunner = PackageRunner {
    source: PackageRegistry::Npm,
    name_prefix: "npm:",
    switches: "-A --allow-all -q --quiet -r --reload -R --allow-read -W --allow-write -N --allow-net -E --allow-env \
        -S --allow-sys --allow-run --allow-ffi --allow-import --cached-only --node-modules-dir",
    value_options: "-L --log-level --seed",
    interpreter_options: "",
    package_options: "",
    override_options: "-c --config --import-map --preload --env-file",
    parses_options_after_package: false,
};

/// Prefixes of the environment variables that configure package runners. Each such variable could change where a
/// package comes from or what runs it.
const RUNNER_VARIABLE_PREFIXES: &str = "NPM_CONFIG_ PNPM_ YARN_ BUN_ COREPACK_ UV_ PIP_ PIPX_ PYTHON XDG_ DYLD_";

/// Environment variables that start with one of `RUNNER_VARIABLE_PREFIXES` but do not affect what runs. They are exempt
/// because they are often set.
const HARMLESS_VARIABLES: &str = "NPM_CONFIG_LOGLEVEL NPM_CONFIG_YES NPM_CONFIG_UPDATE_NOTIFIER NPM_CONFIG_FUND NPM_CONFIG_AUDIT \
    NPM_CONFIG_PROGRESS NPM_CONFIG_COLOR NPM_CONFIG_LEGACY_PEER_DEPS UV_HTTP_TIMEOUT UV_NO_PROGRESS UV_LINK_MODE \
    UV_COMPILE_BYTECODE UV_PYTHON_PREFERENCE PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_CACHE_DIR PIP_NO_INPUT \
    PYTHONUNBUFFERED PYTHONIOENCODING PYTHONUTF8 PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONFAULTHANDLER \
    PYTHONLEGACYWINDOWSSTDIO XDG_RUNTIME_DIR XDG_SESSION_TYPE XDG_CURRENT_DESKTOP";

/// Other environment variables that can change what runs: locations of programs and caches, preloaded code, and proxies
/// or certificates for the registry.
const OVERRIDE_VARIABLES: &str = "PATH PATHEXT HOME USERPROFILE APPDATA LOCALAPPDATA PROGRAMDATA TMPDIR TMP TEMP COMSPEC SHELL \
    BASH_ENV NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED HTTP_PROXY HTTPS_PROXY ALL_PROXY \
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE OPENSSL_CONF OPENSSL_MODULES DENO_DIR DENO_CERT \
    DENO_TLS_CA_STORE VIRTUAL_ENV CONDA_PREFIX VOLTA_HOME PYENV_ROOT ASDF_DATA_DIR LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT";

fn list_contains(list: &str, option: &str) -> bool {
    list.split(' ').any(|own| own == option)
}

impl PackageRunner {
    /// Returns the package that the runner runs when called with these arguments.
    fn find_package(&self, words: &[&str]) -> Option<PackageReference> {
        let (mut named, mut program, mut is_overridden) = (None, None, false);
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            if word == "--" {
                program = program.or_else(|| words.next());
                break;
            }
            if !word.starts_with('-') {
                program = program.or(Some(word));
                if self.parses_options_after_package {
                    continue;
                }
                break;
            }
            let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
            let is_no = option.starts_with("--no-") && !option.ends_with("-package");
            if is_no || list_contains(self.switches, option) {
                continue;
            }
            let lists = [self.value_options, self.interpreter_options, self.package_options, self.override_options];
            if !lists.iter().any(|list| list_contains(list, option)) {
                // After the package, no value matters, but it could be an abbreviation of any option.
                program?;
                is_overridden = true;
                continue;
            }
            let value = value.or_else(|| words.next())?;
            is_overridden |= list_contains(self.override_options, option)
                || list_contains(self.interpreter_options, option) && !is_python_version(value);
            // It is unknown which of two packages contains the program.
            if list_contains(self.package_options, option) && named.replace(value).is_some() {
                return None;
            }
        }
        let program = program?;
        let own = PackageReference::read(named.unwrap_or(program).strip_prefix(self.name_prefix)?)?;
        own.source.is_none_or(|source| source == self.source).then_some(())?;
        // A program with a different name could be any program on the machine.
        let is_other = named.is_some() && normalized_name(own.name.rsplit('/').next()?) != normalized_name(program);
        Some(PackageReference { source: Some(self.source), is_guess: is_overridden || is_other, ..own })
    }
}

/// Returns whether an interpreter is specified by its version: `3.12`, `>=3.11,<3.14`, `cpython@3.12`, `python3.12`.
fn is_python_version(text: &str) -> bool {
    let kinds = ["cpython", "python", "pypy", "graalpy"];
    let version = kinds.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    let version = version.trim_start_matches(['@', '-', '>', '<', '=', '~', '!']);
    version.starts_with(|first: char| first.is_ascii_digit())
        && version.bytes().all(|byte| byte.is_ascii_digit() || b".,<>=~!*".contains(&byte))
}

/// Returns the package that a script in `node_modules` belongs to.
fn package_of_node_module(path: &str) -> Option<PackageReference> {
    let (_, inside) = path.rsplit_once("node_modules/").filter(|_| !path.starts_with('-'))?;
    let mut parts = inside.split('/');
    // `..` leads out of the package.
    parts.clone().all(|part| part != "..").then_some(())?;
    let first = parts.next()?;
    let name = if first.starts_with('@') { format!("{first}/{}", parts.next()?) } else { first.to_owned() };
    let own =
        PackageReference { source: Some(PackageRegistry::Npm), name, version: None, is_range: false, is_guess: true };
    is_package_name(&own.name).then_some(own)
}

/// Returns whether the text after a package name can be a version. A path, URL or archive is not a version, and would
/// refer to a different package.
fn is_version_suffix(suffix: &str) -> bool {
    let version = suffix.trim_start_matches('@');
    !version.contains(['/', ':', '\\']) && !version.starts_with('.') && !is_archive(version)
}

fn is_archive(text: &str) -> bool {
    [".tgz", ".tar", ".gz", ".whl", ".zip"].iter().any(|end| text.ends_with(end))
}

fn is_package_name(name: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
    };
    let is_fine = match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| plain(scope) && plain(name)),
        None => plain(name),
    };
    is_fine && name.len() <= MAX_PACKAGE_NAME_BYTES && !is_archive(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package_started_by(line: &str) -> Option<(Option<PackageRegistry>, String)> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        PackageReference::of_command(&words, []).map(|own| (own.source, own.name))
    }

    #[test]
    fn packages_are_recognized_by_their_start_command() {
        let npm = |name: &str| Some((Some(PackageRegistry::Npm), name.to_owned()));
        let pypi = |name: &str| Some((Some(PackageRegistry::Pypi), name.to_owned()));
        assert_eq!(package_started_by("npx -y @acme/files@1.2 /home/ada"), npm("@acme/files"));
        assert_eq!(package_started_by("npx --yes --package @acme/files start"), npm("@acme/files"));
        assert_eq!(package_started_by("/usr/bin/npx files"), npm("files"));
        assert_eq!(package_started_by("cmd /c npx -y files"), npm("files"));
        assert_eq!(package_started_by("C:\\node\\npx.cmd files"), npm("files"));
        assert_eq!(package_started_by("pnpm dlx files"), npm("files"));
        assert_eq!(package_started_by("deno run -A npm:files"), npm("files"));
        assert_eq!(package_started_by("node /opt/node_modules/@acme/files/dist/index.js"), npm("@acme/files"));
        assert_eq!(package_started_by("uvx mcp-server-git==1.0 --repository /x"), pypi("mcp-server-git"));
        assert_eq!(package_started_by("uvx --from mcp-git[cli] serve"), pypi("mcp-git"));
        assert_eq!(package_started_by("uvx --python 3.12 mcp-git"), pypi("mcp-git"));
        assert_eq!(package_started_by("uv tool run mcp-git"), pypi("mcp-git"));
        assert_eq!(package_started_by("pipx run mcp-git"), pypi("mcp-git"));
        assert_eq!(package_started_by("python3 -m mcp_server_git.server"), pypi("mcp_server_git"));
        assert_eq!(package_started_by("/home/ada/bin/mcp-git"), Some((None, "mcp-git".to_owned())));
    }

    /// `evil` is the package that runs; options after it belong to the server.
    #[test]
    fn options_after_the_package_belong_to_the_server() {
        for line in [
            "npx -y evil -p good",
            "npx -y evil --package=good",
            "npx -- evil -p good",
            "bunx evil -p good",
            "bun x evil --package good",
            "pnpm dlx evil --package=good",
            "yarn dlx evil -p good",
            "npm exec -- evil --package good",
            "npm x evil -- --package good --registry http://a",
            "npm exec evil --yes",
            "uvx evil --from good",
            "uvx --python 3.12 evil --from=good",
            "uv tool run evil --from good",
            "pipx run evil --spec good",
            "deno run -A npm:evil npm:good",
            "cmd /c npx evil -p good",
        ] {
            assert_eq!(package_started_by(line).map(|(_, name)| name).as_deref(), Some("evil"), "{line}");
        }
        for line in [
            "deno run -A evil.ts npm:good",
            "deno npm:good",
            "npx --what good evil",
            "uvx --what good evil",
            "npx -p good -p evil serve",
            "npx -c evil -p good",
            "npx good@user/evil",
            "npx good@npm:evil",
            "npx good@.",
            "npx good@evil.tgz",
            "npx good.tgz",
            "npm exec -p good evil",
            "pnpm exec good",
            "node --require=/x/node_modules/good/a.js evil.js",
            "node /x/node_modules/good/../../evil.js",
            "cmd /c npx good & evil",
        ] {
            assert_eq!(package_started_by(line), None, "{line}");
        }
    }

    #[test]
    fn an_uncertain_match_is_a_guess() {
        let is_guess = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            PackageReference::of_command(&words, []).map(|own| own.is_guess)
        };
        for line in [
            "uv run --with good evil.py",
            "python3 -m good",
            "/home/ada/bin/mcp-good",
            "./uvx good",
            "tools/npx good",
            // Whatever is installed there runs.
            "node /opt/node_modules/@acme/good/dist/index.js",
            "npx -p good bash",
            "uvx --from good bash",
            "uvx --with evil good",
            "uvx --index-url https://evil.example.com good",
            "npx --registry https://evil.example.com good",
            // Whatever is there runs the package.
            "uvx --python ./evil good",
            "uvx -p /tmp/evil/python3.12 good",
            "uvx --python=evil good",
            "pipx run --python evil good",
            "npx --cache /tmp/evil good",
            "uvx --cache-dir=/tmp/evil good",
            // `npm exec` also parses options after the name.
            "npm exec good --package=evil",
            "npm exec good --registry=http://evil",
            "npm x good --registry http://evil -- --x",
            "npm exec good --pack=evil",
            "npm exec good -y -c evil",
        ] {
            assert_eq!(is_guess(line), Some(true), "{line}");
        }
        for line in [
            "uvx --python 3.12 good",
            "uvx -p >=3.11,<3.14 good",
            "uvx --python cpython@3.12.1 good",
            "pipx run --python python3.12 good",
            "npx -y good",
            "uvx --from Mcp_Good[cli]==1 mcp-good",
            "npx -p @acme/good good",
            "pipx run good",
            "npm exec good --yes -- --registry http://a",
            "npm exec good --package=good",
            "npm x good word",
        ] {
            assert_eq!(is_guess(line), Some(false), "{line}");
        }
    }

    #[test]
    fn a_command_without_a_package_is_none() {
        for line in [
            "docker run -i mcp/git",
            "node /home/ada/server.js",
            "bash -c hunter2",
            "npx",
            "uv run server.py",
            "npx ./local",
        ] {
            assert_eq!(package_started_by(line), None, "{line}");
        }
        for text in ["https://a/mcp", "../x", "@scope", "a b/c", ""] {
            assert!(PackageReference::read(text).is_none_or(|own| own.name == "a"), "{text}");
        }
    }

    #[test]
    fn versions_are_compared_by_the_rules_of_their_source_and_ranges_are_unknown() {
        let compare =
            |text: &str, source, read: &str| PackageReference::read(text).map(|own| own.compare_version(source, read));
        for (text, source, expected) in [
            ("a", PackageRegistry::Pypi, VersionComparison::Same),
            ("a@latest", PackageRegistry::Npm, VersionComparison::Same),
            ("a==1.2", PackageRegistry::Pypi, VersionComparison::Same),
            ("a[cli]==1.2.0", PackageRegistry::Pypi, VersionComparison::Same),
            ("a@1.2.0", PackageRegistry::Npm, VersionComparison::Same),
            ("a@v1.2.0", PackageRegistry::Npm, VersionComparison::Same),
            ("a==1.3", PackageRegistry::Pypi, VersionComparison::Different),
            ("a@1.2.0-beta.1", PackageRegistry::Npm, VersionComparison::Different),
            ("a>=1.2.0", PackageRegistry::Pypi, VersionComparison::Unknown),
            ("a~=1.2", PackageRegistry::Pypi, VersionComparison::Unknown),
            ("a!=1.2.0", PackageRegistry::Pypi, VersionComparison::Unknown),
            ("a==1.*", PackageRegistry::Pypi, VersionComparison::Unknown),
            ("a@^1.2.0", PackageRegistry::Npm, VersionComparison::Unknown),
            ("a@1.2", PackageRegistry::Npm, VersionComparison::Unknown),
            ("a@1.2.x", PackageRegistry::Npm, VersionComparison::Unknown),
            ("a@beta", PackageRegistry::Npm, VersionComparison::Unknown),
        ] {
            assert_eq!(compare(text, source, "1.2.0"), Some(expected), "{text}");
        }
    }

    #[test]
    fn variables_that_may_change_the_program_are_found_in_upper_and_lower_case() {
        for name in [
            "npm_config_registry",
            "NPM_CONFIG_REGISTRY",
            "npm_config_@acme:registry",
            "npm_config_package",
            "npm_config_call",
            "npm_config_script_shell",
            "UV_INDEX_URL",
            "uv_default_index",
            "NODE_OPTIONS",
            "PATH",
            "HOME",
            "LD_PRELOAD",
            "XDG_CONFIG_HOME",
            "USERPROFILE",
            "AppData",
            "UV_PYTHON",
            "UV_ENV_FILE",
            "PYTHONHOME",
            "BUN_OPTIONS",
            "NODE_PATH",
            "UV_TOOL_DIR",
            "UV_CACHE_DIR",
            "UV_INSECURE_HOST",
            "UV_WHAT_COMES_LATER",
            "XDG_DATA_HOME",
            "XDG_CACHE_HOME",
            "PIPX_HOME",
            "PIP_TARGET",
            "HTTPS_PROXY",
            "https_proxy",
            "http_proxy",
            "All_Proxy",
            "SSL_CERT_FILE",
            "NODE_EXTRA_CA_CERTS",
            "NODE_TLS_REJECT_UNAUTHORIZED",
            "npm_config_cache",
            "npm_config_strict_ssl",
            "npm_config_https-proxy",
            "PYTHONSTARTUP",
            "BUN_INSTALL",
            "COREPACK_NPM_REGISTRY",
            "DENO_DIR",
            "TMPDIR",
        ] {
            assert!(can_override_package(name), "{name}");
        }
        for name in [
            "LANG",
            "GITHUB_TOKEN",
            "NPM_CONFIG_LOGLEVEL",
            "npm_config_yes",
            "npm_config_update-notifier",
            "NODE_ENV",
            "PYTHONUNBUFFERED",
            "PYTHONIOENCODING",
            "UV_HTTP_TIMEOUT",
            "NO_PROXY",
            "LD_SDK_KEY",
            "DENO_DEPLOY_TOKEN",
            "",
        ] {
            assert!(!can_override_package(name), "{name}");
        }
    }

    #[test]
    fn names_are_read_with_source_and_version() {
        let read = |text: &str| PackageReference::read(text).map(|own| (own.source, own.name, own.version));
        let version = |text: &str| Some(text.to_owned());
        assert_eq!(read("npm:@a/b@1.2.3"), Some((Some(PackageRegistry::Npm), "@a/b".into(), version("1.2.3"))));
        assert_eq!(read("@a/b@latest"), Some((Some(PackageRegistry::Npm), "@a/b".into(), None)));
        assert_eq!(read("pypi:a==1.0"), Some((Some(PackageRegistry::Pypi), "a".into(), version("1.0"))));
        assert_eq!(read("a[x]>=1.0"), Some((None, "a".into(), version("1.0"))));
        assert_eq!(read("a"), Some((None, "a".into(), None)));
    }
}
