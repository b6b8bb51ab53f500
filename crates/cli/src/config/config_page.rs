//! `docs/config.md`, from the same table that drives the reader.

use std::fmt::Write;

use gatelodge_policy::Severity;

use super::config_diagnostic::ConfigDiagnosticCode;
use super::config_sections::{CONFIG_SECTIONS, ConfigSection};

const PAGE_INTRODUCTION: &str = "# Configuration

`gatelodge serve --config gatelodge.toml` reads one TOML file.
All its faults are told at once, each with its place, a code and a way out.

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

`gatelodge grant token` makes a token and its hash.

A change of the file, of a policy or of a token file is taken up within a second, and on SIGHUP, once nobody writes it any more.
A file with errors changes nothing: the gateway says so in its log and keeps what it had.
`[gateway]`, `[admin]`, `[store]` and `[telemetry]` are read at the start only.

What stands in the file is read-only elsewhere.
Servers, policies and grants that were made at the command line live beside it; where both have a name, the file's counts.
Policies from the file have no versions of their own; the call log gives them version 0.
";

/// The page.
pub fn config_page() -> String {
    let mut out = PAGE_INTRODUCTION.to_owned();
    for section in CONFIG_SECTIONS {
        write_section(section, &mut out);
    }
    out.push_str("\n## Findings\n\n| code | | what it means |\n|---|---|---|\n");
    for (code, about) in ConfigDiagnosticCode::ALL {
        let severity = match code.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let _ = writeln!(out, "| `{}` | {severity} |{about} |", code.as_str());
    }
    out
}

fn write_section(section: &ConfigSection, out: &mut String) {
    let about: Vec<&str> = section.description.lines().map(str::trim).collect();
    let _ = write!(out, "\n## `{}`\n\n{}\n\n", section.heading, about.join("\n"));
    out.push_str("| field | | default | what it means |\n|---|---|---|---|\n");
    for field in section.fields {
        let _ = writeln!(out, "| `{}` | {} | {} |{} |", field.name, field.type_name, field.default, field.description);
    }
}
