//! Time to compile a policy of one megabyte, from JSON and from YAML.

use gatelodge_policy::{DocumentFormat, parse};
use serde_json::Value;

use crate::figure_report::BenchFigure;
use crate::interleaved_timing::{measure_interleaved, workload};
use crate::policy_fixtures::policy_with_tools;

/// About one megabyte of JSON.
const POLICY_TOOLS: usize = 605;

pub fn figures() -> Vec<BenchFigure> {
    let policy = policy_with_tools(POLICY_TOOLS);
    let json = format!("{policy:#}");
    let mut yaml = String::new();
    write_yaml(&policy, 0, &mut yaml);
    let slices = measure_interleaved(vec![
        workload(|| parse(json.as_bytes(), DocumentFormat::Json).expect("a policy")),
        workload(|| parse(yaml.as_bytes(), DocumentFormat::Yaml).expect("a policy")),
    ]);
    let [as_json, as_yaml] = slices.as_slice() else { return Vec::new() };
    let name = |language: &str, text: &str| {
        format!("{POLICY_TOOLS} tools of 10 conditions, {} kB of {language}", text.len() / 1000)
    };
    vec![
        BenchFigure::milliseconds(name("JSON", &json), as_json),
        BenchFigure::throughput(name("JSON", &json), json.len(), as_json),
        BenchFigure::milliseconds(name("YAML", &yaml), as_yaml),
        BenchFigure::throughput(name("YAML", &yaml), yaml.len(), as_yaml),
    ]
}

/// Writes block style. Strings are quoted as in JSON, which YAML accepts.
fn write_yaml(value: &Value, indent: usize, out: &mut String) {
    let new_line = |out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent));
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                new_line(out);
                out.push_str(&format!("{}: ", Value::from(key.as_str())));
                write_yaml(value, indent + 2, out);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            for element in elements {
                new_line(out);
                out.push_str("- ");
                write_yaml(element, indent + 2, out);
            }
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}
