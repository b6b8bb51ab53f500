//! Arguments of `gatelodge policy …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gatelodge_policy::DocumentFormat;

use super::argument_values::any_whole_number;
use super::{ListArgs, NamedItemArgs, StoreArgs};

/// Subcommands of `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicySubcommand {
    Check(CheckPolicyArgs),
    Test(TestPolicyArgs),
    Explain(ExplainPolicyArgs),
    Import(ImportInterceptPolicyArgs),
    Draft(DraftPolicyArgs),
    /// Prints the JSON Schema for policies, for use in editors.
    Schema,
    Fmt(FormatPolicyArgs),
    Put(PutPolicyArgs),
    /// Lists the stored policies.
    List(ListArgs),
    Show(ShowPolicyArgs),
    /// Lists all versions of a policy.
    #[command(mut_arg("name", |name| name.help("Name of the policy")))]
    Versions(NamedItemArgs),
    Rollback(RollbackPolicyArgs),
}

/// Format of a policy document.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PolicyFormatArg {
    /// JSON, optionally with comments.
    Json,
    /// YAML.
    Yaml,
}

impl From<PolicyFormatArg> for DocumentFormat {
    fn from(format: PolicyFormatArg) -> Self {
        match format {
            PolicyFormatArg::Json => Self::Json,
            PolicyFormatArg::Yaml => Self::Yaml,
        }
    }
}

/// Checks policies, and reports all errors and warnings with location, code and help.
///
/// A policy with errors cannot be used. Warnings point out probable mistakes:
/// a misspelt argument, a rule that never applies, a limit that a new session resets.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge policy check policy.json
  gatelodge policy check --tools tools.json policy.yaml    also check against a server's tools/list result

Exit code: 0 no errors, 1 errors, 2 a file cannot be read; the others are checked nevertheless.")]
pub struct CheckPolicyArgs {
    /// Policy files; `-` is standard input.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// A `tools/list` result: check argument names, types and ranges against its schemas.
    #[arg(long, value_name = "FILE")]
    pub tools: Option<PathBuf>,
    /// Treat warnings as errors.
    #[arg(long)]
    pub strict: bool,
    /// Format of the policies [default: by file extension or first character]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<PolicyFormatArg>,
    /// Print the findings as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs case files, which contain calls and the decision, code and rule expected for each.
///
/// A case file is YAML or JSON: `policy` (a path relative to the file, or the policy itself) and `cases`,
/// each with a `name`, a `call` and an `expect`.
#[derive(Debug, Args)]
#[command(after_help = "Example, as books.cases.yaml:
  policy: books.json
  cases:
    - name: a small charge passes
      call: {tool: create_charge, arguments: {amount: 5, currency: eur}}
      expect: allow
    - name: a large charge is refused by this rule
      call: {tool: create_charge, arguments: {amount: 60000, currency: eur}}
      expect: {decision: deny, code: deny_if, rule: /tools/create_charge/deny_if/0}

Exit code: 0 all as expected, 1 some not, 2 a file cannot be read; the others are run nevertheless.")]
pub struct TestPolicyArgs {
    /// Case files.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Print the reports as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Evaluates a policy for one call, and shows each rule that was evaluated, what it compared, and which one decided.
///
/// A call has one of `tool`, `resource`, `prompt` and `method`; all other members are optional.
#[derive(Debug, Args)]
#[command(after_help = r#"Example:
  gatelodge policy explain --policy books.json --call '{"tool": "create_charge", "arguments": {"amount": 5}}'

A call with all members:
  {"tool": "create_charge", "arguments": {"amount": 5}, "category": "financial",
   "server": {"name": "stripe"}, "grant": {"label": "ci", "labels": {"team": "x"}},
   "client": {"name": "c", "version": "1"}, "session": "s1", "input_schema": {"type": "object"},
   "accepted": "yes", "at": "2026-11-15T12:00:00Z"}
`accepted` is `yes`, `new`, `changed` or `not_offered`.

Exit code: 0 whatever the decision is, 1 the policy or the call is invalid, 2 a file cannot be read."#)]
pub struct ExplainPolicyArgs {
    /// Policy file; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub policy: PathBuf,
    /// The call: a file, `-` for standard input, or JSON text.
    #[arg(long, value_name = "FILE|JSON")]
    pub call: String,
    /// Format of the policy [default: by file extension or first character]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<PolicyFormatArg>,
    /// Print `{"decision", "code", "rule", "message", "charges", "trace"}`, or a list of findings like `check --json`.
    #[arg(long)]
    pub json: bool,
}

/// Converts an Intercept YAML policy. Prints the policy to standard output and notes to standard error.
///
/// Each note names a place where the result refuses more or counts differently. The result allows what the original
/// refuses only where a note says `looser`: numbers that differ only after the 16th digit, which the original treats as
/// equal.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gatelodge policy import intercept.yaml > policy.json")]
pub struct ImportInterceptPolicyArgs {
    /// Intercept policy; `-` is standard input.
    pub file: PathBuf,
    /// Print the policy and the notes as one JSON object, or a list of findings like `check --json`.
    #[arg(long)]
    pub json: bool,
}

/// Drafts the smallest policy that covers what a grant did: one block for each tool, resource and prompt it used.
///
/// The draft is based on the calls in the log that were sent, including those in observe mode that the policy would
/// have refused. Comments say how often, when, at what rate and with which arguments. Each rate is limited to twice the
/// busiest hour. The policy goes to standard output; what was left out, and why, goes to standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge grant attach ci --server books --policy books --observe    observe it for a while, then:
  gatelodge policy draft --from-calls --grant ci --since 14d --out books.json

Exit code: 0 a policy was drafted, 1 no calls were sent, 2 there is no such grant, or it called several servers.")]
pub struct DraftPolicyArgs {
    /// Draft from the call log.
    #[arg(long, required = true)]
    pub from_calls: bool,
    /// Label or id of the grant.
    #[arg(long, value_name = "LABEL")]
    pub grant: String,
    /// Only calls to this server; required if the grant called several.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Only calls in this period or since this time: `14d`, `2026-11-15`, `2026-11-15T12:00:00Z`.
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Write the policy to this file, which must not exist.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print `{"grant", "server", "policy", "calls", "used", "left_out", "notes"}`.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Formats a policy as JSON. Keeps comments in JSON files, but not in YAML files.
///
/// Indents by two spaces, puts short values on one line, and keeps comments in place. Prints YAML as JSON, and reports
/// how many comments are lost. Changes the file only with `--write`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge policy fmt policy.json            print the formatted policy
  gatelodge policy fmt --write policy.json    format the file
  gatelodge policy fmt --check policy.json    exit with 1 if the file is not formatted")]
pub struct FormatPolicyArgs {
    /// Policy file; `-` is standard input.
    pub file: PathBuf,
    /// Write the result to the file; JSON only.
    #[arg(long, conflicts_with = "check")]
    pub write: bool,
    /// Change nothing; exit with 1 if the file is not formatted.
    #[arg(long)]
    pub check: bool,
}

/// Checks a policy like `policy check`, and stores it as the next version under a name.
///
/// A running gateway applies it within a second. Old versions are kept.
/// Reports which counters start at zero because their window, scope or name changed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gatelodge policy put books policy.json")]
pub struct PutPolicyArgs {
    /// Name of the policy, which grants refer to.
    pub name: String,
    /// Policy file; `-` is standard input.
    pub file: PathBuf,
    /// Format of the policy [default: by file extension or first character]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<PolicyFormatArg>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Prints a policy as it was written.
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub struct ShowPolicyArgs {
    /// Name of the policy.
    pub name: String,
    /// Version to print [default: the active one]
    #[arg(long, value_name = "N", value_parser = any_whole_number::<u32>)]
    pub version: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Activates an older version of a policy. Its text becomes a new version, so that the log identifies it.
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub struct RollbackPolicyArgs {
    /// Name of the policy.
    pub name: String,
    /// Version to restore.
    #[arg(value_parser = any_whole_number::<u32>)]
    pub version: u32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}
