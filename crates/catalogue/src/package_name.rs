//! Which package is meant: as people name one, and as clients start one. Only what is a package's name is ever taken from
//! a command; its arguments are not looked at further.

use crate::package_index::{PackageRegistry, is_same_package_name, normalized_name};

/// The longest name of a package.
const MAX_PACKAGE_NAME_BYTES: usize = 214;

/// A package as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageName {
    /// Where it is published, if that was said.
    pub source: Option<PackageRegistry>,
    /// Its name there.
    pub name: String,
    /// The version, if one was named.
    pub version: Option<String>,
    /// Whether several versions would do, as for `>=1.2`.
    pub is_range: bool,
    /// Whether it is only likely that this is what runs.
    pub is_guess: bool,
}

impl PackageName {
    /// Reads `npm:@scope/name@1.2`, `pypi:name==1.2`, `name[extra]`, or just a name.
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
        let (name, behind) = rest.split_at_checked(end)?;
        let version = behind.trim_start_matches(|letter| letter != '@' && letter != '=').trim_start_matches(['@', '=']);
        let operator = behind.rsplit(']').next().unwrap_or_default();
        let is_range = !operator.is_empty() && !operator.starts_with('@') && !operator.starts_with("==");
        let source = if scope.is_empty() { source } else { Some(source.unwrap_or(PackageRegistry::Npm)) };
        let named = format!("{scope}{name}");
        let version = Some(version.to_owned()).filter(|version| !version.is_empty() && version != "latest");
        let own = Self { source, name: named, version, is_range, is_guess: false };
        (is_name(&own.name) && is_version(behind)).then_some(own)
    }

    /// The package that a command starts where these variables are set; none where that cannot be told.
    pub fn of_command<'v>(words: &[String], variables: impl IntoIterator<Item = &'v str>) -> Option<Self> {
        let own = Self::parse_command(words)?;
        // A path from here is a file that lies beside the configuration, whatever it is called.
        let is_beside = words.first().is_some_and(|program| program.contains(['/', '\\']) && !is_absolute(program));
        let is_guess = own.is_guess || is_beside || variables.into_iter().any(can_override_package);
        Some(Self { is_guess, ..own })
    }

    /// Whether two names are of one package.
    pub fn is_same_package(&self, other: &Self) -> bool {
        self.source == other.source && is_same_package_name(self.source, &self.name, &other.name)
    }

    fn parse_command(words: &[String]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        let program = program_name(program);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match (program, words.as_slice()) {
            ("npx" | "bunx", rest) | ("bun", ["x", rest @ ..]) => NPX.package(rest),
            ("pnpx", rest) | ("pnpm", ["dlx", rest @ ..]) => NPM_RUNNER.package(rest),
            ("npm", ["exec" | "x", rest @ ..]) => NPM_EXEC.package(rest),
            ("yarn", ["dlx", rest @ ..]) => NPX.package(rest),
            ("uvx", rest) | ("uv", ["tool", "run", rest @ ..]) => UVX.package(rest),
            ("pipx", ["run", rest @ ..]) => PIPX.package(rest),
            ("deno", ["run", rest @ ..]) => DENO.package(rest),
            // What runs is another word, of which only the packages beside it are known.
            ("uv", ["run", "--with", package, ..]) => Self::guess_from_word(Some(PackageRegistry::Pypi), package),
            // A module carries its package's name more often than not.
            (program, ["-m", module, ..]) if program.starts_with("python") => {
                Self::guess_from_word(Some(PackageRegistry::Pypi), module.split('.').next()?)
            }
            // A script in a package that was installed. Whatever lies there runs, in whichever version.
            ("node", [path, ..]) => installed(path),
            // On Windows, clients start through the shell.
            ("cmd", [flag, ..]) if flag.eq_ignore_ascii_case("/c") => {
                let is_plain = words.iter().all(|word| !word.contains(['&', '|', '<', '>', '^', '%']));
                is_plain.then(|| Self::of_command(arguments.get(1..)?, []))?
            }
            ("npm" | "pnpm" | "yarn" | "bun" | "uv" | "pipx" | "deno" | "cmd", _) => None,
            // So does a program that was installed.
            (program, _) => {
                Self::guess_from_word(None, program).filter(|own| own.version.is_none() && own.name.contains("mcp"))
            }
        }
    }

    /// How the version that is meant compares with one that was read. Where none is named there is nothing to compare:
    /// the newest starts, and that may be a later one than was read.
    pub fn compare_version(&self, source: PackageRegistry, read: &str) -> VersionComparison {
        let Some(version) = self.version.as_deref().filter(|_| !self.is_range) else {
            return if self.is_range { VersionComparison::Unknown } else { VersionComparison::Same };
        };
        let plain = |version: &str| {
            let version = version.strip_prefix('v').unwrap_or(version).to_ascii_lowercase();
            let ends = |text: &str| text.strip_suffix(".0").map(str::to_owned);
            // Of Python packages 1.0 and 1.0.0 are the same.
            let shorter = |text: String| std::iter::successors(Some(text), |text| ends(text)).last();
            if source == PackageRegistry::Pypi { shorter(version).unwrap_or_default() } else { version }
        };
        let is_exact = version.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit())
            && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+' | b'!'))
            && !version.split('.').any(|part| part == "x" || part == "X")
            // For npm, 1.2 is any version that begins so.
            && (source == PackageRegistry::Pypi || version.split('.').count() >= 3);
        match is_exact {
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

/// How a version that is meant compares with one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionComparison {
    /// It is the same.
    Same,
    /// It is another.
    Different,
    /// Nobody can tell: several would do, or a word stands for it.
    Unknown,
}

/// Whether a variable of the environment lets something else run than what is published under the name.
fn can_override_package(variable: &str) -> bool {
    let name = variable.to_ascii_uppercase().replace('-', "_");
    let is_of_starter = FAMILIES.split(' ').any(|family| name.starts_with(family));
    has(VARIABLES, &name) || is_of_starter && !has(HARMLESS, &name)
}

fn is_absolute(program: &str) -> bool {
    program.starts_with(['/', '\\']) || program.get(1..3).is_some_and(|drive| matches!(drive, ":/" | ":\\"))
}

/// The last part of a path, without what Windows puts behind.
fn program_name(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name)
}

/// A program that starts packages, by the options that may stand before the package. Behind it, they are mostly the server's
/// own. One that is not listed may take the next word or not: then nobody can tell which package it is.
struct PackageRunner {
    source: PackageRegistry,
    /// What a package's name begins with.
    name_prefix: &'static str,
    /// Options alone. Lists are parted by spaces.
    switches: &'static str,
    /// Options with a value.
    value_options: &'static str,
    /// Options whose value is the interpreter. A version is one that is known; a path or another name may be any program.
    interpreter_options: &'static str,
    /// Options whose value is the package; the plain word is then a program in it.
    package_options: &'static str,
    /// Options with a value by which something else may run than what is published under the name.
    override_options: &'static str,
    /// Whether options behind the package are its own as well, up to `--`.
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
const NPM_EXEC: PackageRunner = PackageRunner { parses_options_after_package: true, ..NPM_RUNNER };
/// `npm exec` has another `-p`.
const NPX: PackageRunner = PackageRunner { package_options: "-p --package", ..NPM_RUNNER };
const UVX: PackageRunner = PackageRunner {
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
const PIPX: PackageRunner = PackageRunner {
    switches: "-q --quiet -v --verbose --pypackages --fetch-missing-python",
    value_options: "",
    interpreter_options: "--python",
    package_options: "--spec",
    override_options: "--with --index-url -i --pip-args",
    ..UVX
};
const DENO: PackageRunner = PackageRunner {
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

/// What variables of the starters begin with. Any of them may say where a package comes from or what runs it.
const FAMILIES: &str = "NPM_CONFIG_ PNPM_ YARN_ BUN_ COREPACK_ UV_ PIP_ PIPX_ PYTHON XDG_ DYLD_";

/// Those of them that people set and that change nothing of it.
const HARMLESS: &str = "NPM_CONFIG_LOGLEVEL NPM_CONFIG_YES NPM_CONFIG_UPDATE_NOTIFIER NPM_CONFIG_FUND NPM_CONFIG_AUDIT \
    NPM_CONFIG_PROGRESS NPM_CONFIG_COLOR NPM_CONFIG_LEGACY_PEER_DEPS UV_HTTP_TIMEOUT UV_NO_PROGRESS UV_LINK_MODE \
    UV_COMPILE_BYTECODE UV_PYTHON_PREFERENCE PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_CACHE_DIR PIP_NO_INPUT \
    PYTHONUNBUFFERED PYTHONIOENCODING PYTHONUTF8 PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONFAULTHANDLER \
    PYTHONLEGACYWINDOWSSTDIO XDG_RUNTIME_DIR XDG_SESSION_TYPE XDG_CURRENT_DESKTOP";

/// Other variables by which something else may run: where programs and caches lie, what is loaded first, and who answers
/// in place of an index.
const VARIABLES: &str = "PATH PATHEXT HOME USERPROFILE APPDATA LOCALAPPDATA PROGRAMDATA TMPDIR TMP TEMP COMSPEC SHELL \
    BASH_ENV NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED HTTP_PROXY HTTPS_PROXY ALL_PROXY \
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE OPENSSL_CONF OPENSSL_MODULES DENO_DIR DENO_CERT \
    DENO_TLS_CA_STORE VIRTUAL_ENV CONDA_PREFIX VOLTA_HOME PYENV_ROOT ASDF_DATA_DIR LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT";

fn has(list: &str, option: &str) -> bool {
    list.split(' ').any(|own| own == option)
}

impl PackageRunner {
    /// The package that is started by these words.
    fn package(&self, words: &[&str]) -> Option<PackageName> {
        let (mut named, mut program, mut is_bent) = (None, None, false);
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
            if is_no || has(self.switches, option) {
                continue;
            }
            let lists = [self.value_options, self.interpreter_options, self.package_options, self.override_options];
            if !lists.iter().any(|list| has(list, option)) {
                // Behind the package it takes no word that matters, and may be any option, shortened.
                program?;
                is_bent = true;
                continue;
            }
            let value = value.or_else(|| words.next())?;
            is_bent |= has(self.override_options, option) || has(self.interpreter_options, option) && !is_python(value);
            // Which of two packages has the program, nobody can tell.
            if has(self.package_options, option) && named.replace(value).is_some() {
                return None;
            }
        }
        let program = program?;
        let own = PackageName::read(named.unwrap_or(program).strip_prefix(self.name_prefix)?)?;
        own.source.is_none_or(|source| source == self.source).then_some(())?;
        // A program of another name may be any program of the machine.
        let is_other = named.is_some() && normalized_name(own.name.rsplit('/').next()?) != normalized_name(program);
        Some(PackageName { source: Some(self.source), is_guess: is_bent || is_other, ..own })
    }
}

/// Whether an interpreter is named by its version: `3.12`, `>=3.11,<3.14`, `cpython@3.12`, `python3.12`.
fn is_python(text: &str) -> bool {
    let kinds = ["cpython", "python", "pypy", "graalpy"];
    let version = kinds.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    let version = version.trim_start_matches(['@', '-', '>', '<', '=', '~', '!']);
    version.starts_with(|first: char| first.is_ascii_digit())
        && version.bytes().all(|byte| byte.is_ascii_digit() || b".,<>=~!*".contains(&byte))
}

/// The package that a script in `node_modules` belongs to.
fn installed(path: &str) -> Option<PackageName> {
    let (_, inside) = path.rsplit_once("node_modules/").filter(|_| !path.starts_with('-'))?;
    let mut parts = inside.split('/');
    // Two dots lead out of it again.
    parts.clone().all(|part| part != "..").then_some(())?;
    let first = parts.next()?;
    let name = if first.starts_with('@') { format!("{first}/{}", parts.next()?) } else { first.to_owned() };
    let own = PackageName { source: Some(PackageRegistry::Npm), name, version: None, is_range: false, is_guess: true };
    is_name(&own.name).then_some(own)
}

/// Whether what stands behind a name says which version. A folder, an archive or a repository in its place is another
/// package.
fn is_version(behind: &str) -> bool {
    let version = behind.trim_start_matches('@');
    !version.contains(['/', ':', '\\']) && !version.starts_with('.') && !is_archive(version)
}

fn is_archive(text: &str) -> bool {
    [".tgz", ".tar", ".gz", ".whl", ".zip"].iter().any(|end| text.ends_with(end))
}

fn is_name(name: &str) -> bool {
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

    fn started(line: &str) -> Option<(Option<PackageRegistry>, String)> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        PackageName::of_command(&words, []).map(|own| (own.source, own.name))
    }

    #[test]
    fn packages_are_known_by_how_clients_start_them() {
        let npm = |name: &str| Some((Some(PackageRegistry::Npm), name.to_owned()));
        let pypi = |name: &str| Some((Some(PackageRegistry::Pypi), name.to_owned()));
        assert_eq!(started("npx -y @acme/files@1.2 /home/ada"), npm("@acme/files"));
        assert_eq!(started("npx --yes --package @acme/files start"), npm("@acme/files"));
        assert_eq!(started("/usr/bin/npx files"), npm("files"));
        assert_eq!(started("cmd /c npx -y files"), npm("files"));
        assert_eq!(started("C:\\node\\npx.cmd files"), npm("files"));
        assert_eq!(started("pnpm dlx files"), npm("files"));
        assert_eq!(started("deno run -A npm:files"), npm("files"));
        assert_eq!(started("node /opt/node_modules/@acme/files/dist/index.js"), npm("@acme/files"));
        assert_eq!(started("uvx mcp-server-git==1.0 --repository /x"), pypi("mcp-server-git"));
        assert_eq!(started("uvx --from mcp-git[cli] serve"), pypi("mcp-git"));
        assert_eq!(started("uvx --python 3.12 mcp-git"), pypi("mcp-git"));
        assert_eq!(started("uv tool run mcp-git"), pypi("mcp-git"));
        assert_eq!(started("pipx run mcp-git"), pypi("mcp-git"));
        assert_eq!(started("python3 -m mcp_server_git.server"), pypi("mcp_server_git"));
        assert_eq!(started("/home/ada/bin/mcp-git"), Some((None, "mcp-git".to_owned())));
    }

    /// The marked word is the package that runs; behind it, options are the server's own.
    #[test]
    fn options_behind_the_package_are_the_servers_own() {
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
            assert_eq!(started(line).map(|(_, name)| name).as_deref(), Some("evil"), "{line}");
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
            assert_eq!(started(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_only_likely_is_a_guess() {
        let is_guess = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            PackageName::of_command(&words, []).map(|own| own.is_guess)
        };
        for line in [
            "uv run --with good evil.py",
            "python3 -m good",
            "/home/ada/bin/mcp-good",
            "./uvx good",
            "tools/npx good",
            // Whatever lies there runs.
            "node /opt/node_modules/@acme/good/dist/index.js",
            "npx -p good bash",
            "uvx --from good bash",
            "uvx --with evil good",
            "uvx --index-url https://evil.example.com good",
            "npx --registry https://evil.example.com good",
            // Whatever lies there runs the package.
            "uvx --python ./evil good",
            "uvx -p /tmp/evil/python3.12 good",
            "uvx --python=evil good",
            "pipx run --python evil good",
            "npx --cache /tmp/evil good",
            "uvx --cache-dir=/tmp/evil good",
            // `npm exec` takes options behind the name as its own.
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
    fn what_is_no_package_is_none() {
        for line in [
            "docker run -i mcp/git",
            "node /home/ada/server.js",
            "bash -c hunter2",
            "npx",
            "uv run server.py",
            "npx ./local",
        ] {
            assert_eq!(started(line), None, "{line}");
        }
        for text in ["https://a/mcp", "../x", "@scope", "a b/c", ""] {
            assert!(PackageName::read(text).is_none_or(|own| own.name == "a"), "{text}");
        }
    }

    #[test]
    fn versions_are_compared_as_their_source_does_and_ranges_are_unsure() {
        let compare =
            |text: &str, source, read: &str| PackageName::read(text).map(|own| own.compare_version(source, read));
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
    fn variables_that_may_start_something_else_are_known_in_any_case_of_letters() {
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
        let read = |text: &str| PackageName::read(text).map(|own| (own.source, own.name, own.version));
        let version = |text: &str| Some(text.to_owned());
        assert_eq!(read("npm:@a/b@1.2.3"), Some((Some(PackageRegistry::Npm), "@a/b".into(), version("1.2.3"))));
        assert_eq!(read("@a/b@latest"), Some((Some(PackageRegistry::Npm), "@a/b".into(), None)));
        assert_eq!(read("pypi:a==1.0"), Some((Some(PackageRegistry::Pypi), "a".into(), version("1.0"))));
        assert_eq!(read("a[x]>=1.0"), Some((None, "a".into(), version("1.0"))));
        assert_eq!(read("a"), Some((None, "a".into(), None)));
    }
}
