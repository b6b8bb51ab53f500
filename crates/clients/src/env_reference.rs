//! References to environment variables in client configurations, and their conversion to our syntax, `${NAME}`.

/// A client's syntax for references to environment variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvReferenceSyntax {
    /// `${NAME}`, optionally with a default: `${NAME:-x}`.
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
    /// `${input:id}`, for which the client prompts the user. The client also supports `${env:NAME}`.
    Input,
    /// The client does not support references.
    Unsupported,
}

/// A value in a client's file: a literal or a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientConfigEntryValue {
    /// A reference to an environment variable, in our syntax.
    EnvReference(String),
    /// A literal value, which is treated as a secret.
    Literal(String),
    /// A reference that only the client can resolve.
    ClientOnly,
}

/// Prefixes that may precede a reference in a value and are not secret.
const AUTH_SCHEME_PREFIXES: &[&str] = &["", "Bearer ", "bearer ", "Basic ", "Token ", "token "];

impl EnvReferenceSyntax {
    /// Returns a header value that refers to the environment variable for the token, or `None` if the client does not
    /// support references.
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

    /// Interprets a value in a client's file.
    pub fn read(self, text: &str) -> ClientConfigEntryValue {
        let Some((before, inside, after)) = self.split_reference(text) else {
            let has_variable = text.contains("${") || (self == Self::Curly && text.contains("{env:"));
            return if has_variable && self != Self::Unsupported {
                ClientConfigEntryValue::ClientOnly
            } else {
                ClientConfigEntryValue::Literal(text.to_owned())
            };
        };
        match parse_variable_name(inside) {
            Some(name) if AUTH_SCHEME_PREFIXES.contains(&before) && after.is_empty() => {
                ClientConfigEntryValue::EnvReference(format!("{before}${{{name}}}"))
            }
            // The text around the reference may be a secret.
            _ => ClientConfigEntryValue::ClientOnly,
        }
    }

    /// Splits a value at its first reference. Returns what is before, inside and after it.
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

/// Returns the id of the input through which VS Code prompts for the token.
pub fn vscode_input_id(variable: &str) -> String {
    variable.to_ascii_lowercase().replace('_', "-")
}

/// Returns the variable name in a reference, without any default value.
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
    fn references_of_every_syntax_are_converted() {
        let ours = |text: &str| ClientConfigEntryValue::EnvReference(text.to_owned());
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
    fn other_references_are_client_only_and_other_text_is_literal() {
        assert_eq!(EnvReferenceSyntax::Input.read("Bearer ${input:key}"), ClientConfigEntryValue::ClientOnly);
        assert_eq!(EnvReferenceSyntax::Env.read("${workspaceFolder}/x"), ClientConfigEntryValue::ClientOnly);
        assert_eq!(EnvReferenceSyntax::Braces.read("hunter2${KEY}"), ClientConfigEntryValue::ClientOnly);
        assert_eq!(EnvReferenceSyntax::Braces.read("hunter2"), ClientConfigEntryValue::Literal("hunter2".to_owned()));
        assert_eq!(EnvReferenceSyntax::Unsupported.read("a${b}"), ClientConfigEntryValue::Literal("a${b}".to_owned()));
        assert_eq!(EnvReferenceSyntax::Unsupported.bearer_header("KEY"), None);
    }
}
