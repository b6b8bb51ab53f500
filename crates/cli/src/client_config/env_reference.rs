//! How clients write "the value of this variable", and what that is in our configuration: `${NAME}`.

/// A client's way to name a variable of the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvReferenceSyntax {
    /// `${NAME}`, also with a default: `${NAME:-x}`.
    Braces,
    /// `${env:NAME}`.
    Env,
    /// `$NAME` or `${NAME}`.
    Dollar,
    /// `{env:NAME}`.
    Curly,
    /// `$(echo $NAME)` or `$NAME`.
    Shell,
    /// `${{ secrets.NAME }}`.
    Secrets,
    /// `${input:id}`: the client asks a person; `${env:NAME}` is known too.
    Input,
    /// None at all.
    Unsupported,
}

/// What a value of a client's file is to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryValue {
    /// It comes from the environment: our own way to write it.
    EnvReference(String),
    /// It stands in the file, and counts as a secret.
    Literal(String),
    /// It comes from somewhere that only the client knows.
    ClientOnly,
}

/// Words that may stand before a reference without being a secret.
const AUTH_SCHEME_PREFIXES: &[&str] = &["", "Bearer ", "bearer ", "Basic ", "Token ", "token "];

impl EnvReferenceSyntax {
    /// A header that sends the token of a variable; none where the client has no way to name it.
    pub fn bearer_header(self, variable: &str) -> Option<String> {
        match self {
            Self::Braces => Some(format!("Bearer ${{{variable}}}")),
            Self::Env => Some(format!("Bearer ${{env:{variable}}}")),
            Self::Dollar => Some(format!("Bearer ${variable}")),
            Self::Curly => Some(format!("Bearer {{env:{variable}}}")),
            Self::Shell => Some(format!("$(echo Bearer ${variable})")),
            Self::Secrets => Some(format!("Bearer ${{{{ secrets.{variable} }}}}")),
            Self::Input => Some(format!("Bearer ${{input:{}}}", vscode_input_id(variable))),
            Self::Unsupported => None,
        }
    }

    /// What a value means.
    pub fn read(self, text: &str) -> EntryValue {
        let Some((before, inside, after)) = self.split_reference(text) else {
            let has_variable = text.contains("${") || (self == Self::Curly && text.contains("{env:"));
            return if has_variable && self != Self::Unsupported {
                EntryValue::ClientOnly
            } else {
                EntryValue::Literal(text.to_owned())
            };
        };
        match parse_variable_name(inside) {
            Some(name) if AUTH_SCHEME_PREFIXES.contains(&before) && after.is_empty() => {
                EntryValue::EnvReference(format!("{before}${{{name}}}"))
            }
            // What stands around it may be a secret, and cannot be told from one.
            _ => EntryValue::ClientOnly,
        }
    }

    /// The parts before, inside and behind the first reference.
    fn split_reference(self, text: &str) -> Option<(&str, &str, &str)> {
        let between = |open: &str, close: &str| {
            let (before, rest) = text.split_once(open)?;
            let (inside, after) = rest.split_once(close)?;
            Some((before, inside, after))
        };
        let plain = || {
            let (before, rest) = text.split_once('$')?;
            let end = rest.find(|character: char| !is_name_char(character)).unwrap_or(rest.len());
            let (inside, after) = rest.split_at_checked(end)?;
            (!inside.is_empty()).then_some((before, inside, after))
        };
        match self {
            Self::Braces => between("${", "}"),
            Self::Env | Self::Input => between("${env:", "}"),
            Self::Dollar => between("${", "}").or_else(plain),
            Self::Curly => between("{env:", "}"),
            Self::Shell => match between("$(echo ", ")") {
                // `$(echo Bearer $NAME)` is `Bearer ` and the variable.
                Some(("", echoed, "")) => echoed.split_once('$').map(|(before, inside)| (before, inside, "")),
                Some((before, echoed, after)) => echoed.strip_prefix('$').map(|inside| (before, inside, after)),
                None => plain(),
            },
            Self::Secrets => between("${{ secrets.", " }}"),
            Self::Unsupported => None,
        }
    }
}

/// The id under which VS Code asks for the token.
pub fn vscode_input_id(variable: &str) -> String {
    variable.to_ascii_lowercase().replace('_', "-")
}

/// The variable that is named between the marks; a default behind it is dropped.
fn parse_variable_name(inside: &str) -> Option<&str> {
    let name = inside.split_once(":-").map_or(inside, |(name, _)| name).trim();
    (!name.is_empty() && name.chars().all(is_name_char)).then_some(name)
}

fn is_name_char(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_a_variable_becomes_ours() {
        let ours = |text: &str| EntryValue::EnvReference(text.to_owned());
        for (reference, text) in [
            (EnvReferenceSyntax::Braces, "Bearer ${KEY}"),
            (EnvReferenceSyntax::Braces, "Bearer ${KEY:-x}"),
            (EnvReferenceSyntax::Env, "Bearer ${env:KEY}"),
            (EnvReferenceSyntax::Dollar, "Bearer $KEY"),
            (EnvReferenceSyntax::Dollar, "Bearer ${KEY}"),
            (EnvReferenceSyntax::Curly, "Bearer {env:KEY}"),
            (EnvReferenceSyntax::Shell, "$(echo Bearer $KEY)"),
            (EnvReferenceSyntax::Shell, "Bearer $(echo $KEY)"),
            (EnvReferenceSyntax::Secrets, "Bearer ${{ secrets.KEY }}"),
        ] {
            assert_eq!(reference.read(text), ours("Bearer ${KEY}"), "{reference:?} {text}");
            assert_eq!(reference.read(&reference.bearer_header("KEY").expect("a header")), ours("Bearer ${KEY}"));
        }
        assert_eq!(EnvReferenceSyntax::Env.read("${env:KEY}"), ours("${KEY}"));
    }

    #[test]
    fn what_only_the_client_knows_is_foreign_and_the_rest_is_a_secret() {
        assert_eq!(EnvReferenceSyntax::Input.read("Bearer ${input:key}"), EntryValue::ClientOnly);
        assert_eq!(EnvReferenceSyntax::Env.read("${workspaceFolder}/x"), EntryValue::ClientOnly);
        assert_eq!(EnvReferenceSyntax::Braces.read("hunter2${KEY}"), EntryValue::ClientOnly);
        assert_eq!(EnvReferenceSyntax::Braces.read("hunter2"), EntryValue::Literal("hunter2".to_owned()));
        assert_eq!(EnvReferenceSyntax::Unsupported.read("a${b}"), EntryValue::Literal("a${b}".to_owned()));
        assert_eq!(EnvReferenceSyntax::Unsupported.bearer_header("KEY"), None);
    }
}
