//! Which package is meant: as people name one, and as clients start one. Only what is a package's name is ever taken from
//! a command; its arguments are not looked at further.

use crate::index::Source;

/// The longest name of a package.
const LONGEST: usize = 214;

/// A package as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageName {
    /// Where it is published, if that was said.
    pub source: Option<Source>,
    /// Its name there.
    pub name: String,
    /// The version, if one was named.
    pub version: Option<String>,
}

impl PackageName {
    /// Reads `npm:@scope/name@1.2`, `pypi:name==1.2`, `name[extra]`, or just a name.
    pub fn read(text: &str) -> Option<Self> {
        let (source, rest) = match text.split_once(':') {
            Some(("npm", rest)) => (Some(Source::Npm), rest),
            Some(("pypi", rest)) => (Some(Source::Pypi), rest),
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
        let source = if scope.is_empty() { source } else { Some(source.unwrap_or(Source::Npm)) };
        let named = format!("{scope}{name}");
        let version = Some(version.to_owned()).filter(|version| !version.is_empty() && version != "latest");
        is_name(&named).then_some(Self { source, name: named, version })
    }

    /// The package that a command starts; none where that cannot be told.
    pub fn of_command(words: &[String]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        let program = base(program);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match program {
            "npx" | "bunx" | "pnpx" => npm(&words),
            "npm" | "pnpm" | "yarn" | "bun" => match words.split_first()? {
                (&("exec" | "x" | "dlx"), rest) => npm(rest),
                _ => None,
            },
            "uvx" => python(&words),
            "pipx" => match words.split_first()? {
                (&"run", rest) => python(rest),
                _ => None,
            },
            "uv" => match words.as_slice() {
                ["tool", "run", rest @ ..] => python(rest),
                ["run", "--with", package, ..] => Self::python(package),
                _ => None,
            },
            "deno" => words.iter().find_map(|word| word.strip_prefix("npm:")).and_then(|word| npm(&[word])),
            // A script in a package that was installed.
            "node" => words.first().and_then(|path| installed(path)),
            program if program.starts_with("python") => match words.as_slice() {
                ["-m", module, ..] => Self::python(module.split('.').next()?),
                _ => None,
            },
            // On Windows, clients start through the shell.
            "cmd" => match arguments {
                [flag, rest @ ..] if flag.eq_ignore_ascii_case("/c") => Self::of_command(rest),
                _ => None,
            },
            // A program that was installed carries its package's name more often than not.
            program => Self::read(program).filter(|own| own.version.is_none() && own.name.contains("mcp")),
        }
    }

    fn python(word: &str) -> Option<Self> {
        Self::read(word).map(|own| Self { source: Some(Source::Pypi), ..own })
    }
}

/// The last part of a path, without what Windows puts behind.
fn base(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name)
}

fn npm(words: &[&str]) -> Option<PackageName> {
    let named = after(words, &["-p", "--package"]);
    let word = named.or_else(|| first_plain(words, &["-p", "--package", "-c", "--call", "--registry", "--cache"]))?;
    PackageName::read(word).map(|own| PackageName { source: Some(Source::Npm), ..own })
}

fn python(words: &[&str]) -> Option<PackageName> {
    const TAKE_ONE: &[&str] = &[
        "--from",
        "--with",
        "-p",
        "--python",
        "--index",
        "--index-url",
        "--default-index",
        "-i",
        "--extra-index-url",
        "--spec",
        "--pip-args",
        "--directory",
        "--project",
        "--env-file",
        "--cache-dir",
        "--config-file",
        "--refresh-package",
    ];
    let word = after(words, &["--from", "--spec"]).or_else(|| first_plain(words, TAKE_ONE))?;
    PackageName::python(word)
}

/// The value of an option, as the next word or behind `=`.
fn after<'w>(words: &[&'w str], options: &[&str]) -> Option<&'w str> {
    for (at, word) in words.iter().enumerate() {
        if options.contains(word) {
            return words.get(at + 1).copied();
        }
        let behind = word.split_once('=').filter(|(name, _)| options.contains(name));
        if let Some((_, value)) = behind {
            return Some(value);
        }
    }
    None
}

/// The first word that is neither an option nor the value of one.
fn first_plain<'w>(words: &[&'w str], take_one: &[&str]) -> Option<&'w str> {
    let mut is_value = false;
    for word in words {
        if is_value {
            is_value = false;
        } else if take_one.contains(word) {
            is_value = true;
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
    None
}

/// The package that a script in `node_modules` belongs to.
fn installed(path: &str) -> Option<PackageName> {
    let (_, inside) = path.rsplit_once("node_modules/")?;
    let mut parts = inside.split('/');
    let first = parts.next()?;
    let name = if first.starts_with('@') { format!("{first}/{}", parts.next()?) } else { first.to_owned() };
    is_name(&name).then_some(PackageName { source: Some(Source::Npm), name, version: None })
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
    is_fine && name.len() <= LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(line: &str) -> Option<(Option<Source>, String)> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        PackageName::of_command(&words).map(|own| (own.source, own.name))
    }

    #[test]
    fn packages_are_known_by_how_clients_start_them() {
        let npm = |name: &str| Some((Some(Source::Npm), name.to_owned()));
        let pypi = |name: &str| Some((Some(Source::Pypi), name.to_owned()));
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
    fn names_are_read_with_source_and_version() {
        let read = |text: &str| PackageName::read(text).map(|own| (own.source, own.name, own.version));
        let version = |text: &str| Some(text.to_owned());
        assert_eq!(read("npm:@a/b@1.2.3"), Some((Some(Source::Npm), "@a/b".into(), version("1.2.3"))));
        assert_eq!(read("@a/b@latest"), Some((Some(Source::Npm), "@a/b".into(), None)));
        assert_eq!(read("pypi:a==1.0"), Some((Some(Source::Pypi), "a".into(), version("1.0"))));
        assert_eq!(read("a[x]>=1.0"), Some((None, "a".into(), version("1.0"))));
        assert_eq!(read("a"), Some((None, "a".into(), None)));
    }
}
