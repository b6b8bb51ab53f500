//! Generates `docs/config.md` from the table that the parser uses.

use std::fmt::Write;

use gatelodge_policy::Severity;

use super::config_diagnostic::ConfigDiagnosticCode;
use super::config_sections::{CONFIG_SECTIONS, ConfigSection};

const PAGE_INTRODUCTION: &str = "# Configuration

`gatelodge serve --config gatelodge.toml` reads one TOML file.
All errors are reported at once, each with location, code and help.

```toml
[gateway]
listen = \"127.0.0.1:7420\"

[store]
data = \"data\"

[[servers]]
name = \"books\"
url = \"https://books.example.com/mcp\"
headers = { Authorization = \"Bearer ${BOOKS_TOKEN}\" }

[[policies]]
name = \"books\"
file = \"policy.json\"

[[grants]]
label = \"ci\"
token_env = \"GATELODGE_CI_TOKEN\"
server = \"books\"
policy = \"books\"
```

`gatelodge grant token` generates a token and its hash.

A change of the file, of a policy or of a token file is applied within a second and on SIGHUP, once writing has finished.
A file with errors changes nothing: the gateway logs the errors and keeps the active configuration.
Changes of `[gateway]`, `[admin]`, `[store]` and `[telemetry]` need a restart.

Commands cannot change entries of the file.
Servers, policies and grants that commands created are used in addition; for the same name, the file takes precedence.
Policies from the file have no versions; the call log shows version 0.
";

/// Returns the text of `docs/config.md`.
pub fn config_page() -> String {
    let mut out = PAGE_INTRODUCTION.to_owned();
    for section in CONFIG_SECTIONS {
        write_section(section, &mut out);
    }
    out.push_str("\n## Diagnostics\n\n| code | severity | meaning |\n|---|---|---|\n");
    for (code, description) in ConfigDiagnosticCode::ALL {
        let severity = match code.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let _ = writeln!(out, "| `{}` | {severity} |{description} |", code.as_str());
    }
    out
}

fn write_section(section: &ConfigSection, out: &mut String) {
    let lines: Vec<&str> = section.description.lines().map(str::trim).collect();
    let _ = write!(out, "\n## `{}`\n\n{}\n\n", section.heading, lines.join("\n"));
    out.push_str("| field | type | default | meaning |\n|---|---|---|---|\n");
    for field in section.fields {
        let _ = writeln!(out, "| `{}` | {} | {} |{} |", field.name, field.type_name, field.default, field.description);
    }
}
