//! `gatelodge policy …`: what can be asked.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{ListArgs, NamedItemArgs, StoreArgs};

/// The verbs of `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    Check(CheckPolicyArgs),
    Test(TestPolicyArgs),
    Explain(ExplainPolicyArgs),
    Import(ImportPolicyArgs),
    Draft(DraftPolicyArgs),
    /// Prints the JSON Schema of policies, for editors.
    Schema,
    Fmt(FormatPolicyArgs),
    Put(PutPolicyArgs),
    /// Lists the policies that are kept.
    List(ListArgs),
    Show(ShowPolicyArgs),
    /// Lists all versions of a policy.
    Versions(NamedItemArgs),
    Rollback(RollbackPolicyArgs),
}

/// Where and what a policy is.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PolicyFormatArg {
    /// JSON, comments allowed.
    Json,
    /// YAML.
    Yaml,
}

/// Finds all faults of policies at once: each with its place, a code and a way out.
///
/// A policy with errors does not load. Warnings say what probably is not meant:
/// a misspelt argument, a rule that can never hold, a limit that a new session resets.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge policy check policy.json
  gatelodge policy check --tools tools.json policy.yaml    also check against a server's tools/list result

Exit code: 0 fine or warnings only, 1 errors, 2 a file cannot be read; the others are checked all the same.")]
pub struct CheckPolicyArgs {
    /// The policies; `-` is standard input.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// A `tools/list` result: argument names, types and bounds are checked against its schemas.
    #[arg(long, value_name = "FILE")]
    pub tools: Option<PathBuf>,
    /// Take warnings for errors.
    #[arg(long)]
    pub strict: bool,
    /// In which language the policies are written; else the file's name or its first character tells.
    #[arg(long, value_name = "LANGUAGE")]
    pub format: Option<PolicyFormatArg>,
    /// Print the findings as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs case files: calls, and the decision, code and rule that are expected of them.
///
/// A case file is YAML or JSON: `policy` (a path beside the file, or the policy itself) and `cases`,
/// each with a `name`, a `call` and an `expect`.
#[derive(Debug, Args)]
#[command(after_help = "Example, as books.cases.yaml:
  policy: books.json
  cases:
    - name: a small charge passes
      call: {tool: create_charge, arguments: {amount: 5, currency: eur}}
      expect: allow
    - name: a large one is refused, and by which rule
      call: {tool: create_charge, arguments: {amount: 60000, currency: eur}}
      expect: {decision: deny, code: deny_if, rule: /tools/create_charge/deny_if/0}

Exit code: 0 all as expected, 1 some not, 2 a file cannot be read; the others are run all the same.")]
pub struct TestPolicyArgs {
    /// The case files.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Print the reports as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Judges one call by one policy, and shows every rule that was looked at, what it compared, and what decided.
///
/// A call file names one of `tool`, `resource`, `prompt` and `method`; all else is optional.
#[derive(Debug, Args)]
#[command(after_help = r#"Example:
  gatelodge policy explain --policy books.json --call '{"tool": "create_charge", "arguments": {"amount": 5}}'

A call with everything:
  {"tool": "create_charge", "arguments": {"amount": 5}, "category": "financial",
   "server": {"name": "stripe"}, "grant": {"label": "ci", "labels": {"team": "x"}},
   "client": {"name": "c", "version": "1"}, "session": "s1", "input_schema": {"type": "object"},
   "accepted": "yes", "at": "2026-11-15T12:00:00Z"}
`accepted` is `yes`, `new`, `changed` or `not_offered`.

Exit code: 0 whatever the decision is, 1 the policy or the call has faults, 2 a file cannot be read."#)]
pub struct ExplainPolicyArgs {
    /// The policy; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub policy: PathBuf,
    /// The call: a file, `-` for standard input, or the JSON itself.
    #[arg(long, value_name = "FILE|JSON")]
    pub call: String,
    /// In which language the policy is written; else the file's name or its first character tells.
    #[arg(long, value_name = "LANGUAGE")]
    pub format: Option<PolicyFormatArg>,
    /// Print `{"decision", "code", "rule", "message", "charges", "trace"}`, or a list of findings as `check --json`.
    #[arg(long)]
    pub json: bool,
}

/// Turns an Intercept YAML policy into one of ours. The policy goes to standard output, the notes to standard error.
///
/// Each note says where the result refuses more or counts otherwise. It allows what the original refuses only where a
/// note says `looser`: numbers that differ after the 16th digit, which the original takes for the same.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gatelodge policy import intercept.yaml > policy.json")]
pub struct ImportPolicyArgs {
    /// The Intercept policy; `-` is standard input.
    pub file: PathBuf,
    /// Print the policy and the notes as one JSON object, or a list of findings as `check --json`.
    #[arg(long)]
    pub json: bool,
}

/// Writes the smallest policy that covers what a grant did: one block for each thing it used, and nothing else.
///
/// What counts are the calls of the log that were sent, also those that the policy would have refused while the grant was
/// observed. Comments say how often, when, at what rate and with which arguments; each rate is limited to twice the
/// busiest hour. The policy goes to standard output, what was left out and why to standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge grant attach ci --server books --policy books --observe    let it work for a while, then:
  gatelodge policy draft --from-calls --grant ci --since 14d --out books.json

Exit code: 0 a policy was drafted, 1 nothing was sent, 2 there is no such grant, or it called several servers.")]
pub struct DraftPolicyArgs {
    /// Draft from the call log.
    #[arg(long, required = true)]
    pub from_calls: bool,
    /// The grant, by its label or id.
    #[arg(long, value_name = "LABEL")]
    pub grant: String,
    /// Only what it did at this server; needed if it called several.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Only what it did since: `14d`, `2026-11-15`, `2026-11-15T12:00:00Z`.
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Write the policy to a new file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print `{"grant", "server", "policy", "calls", "used", "left_out", "notes"}`.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Lays a policy out as JSON; comments of JSON stay, those of YAML are lost.
///
/// Two spaces, short things on one line, comments where they stand. YAML becomes JSON on standard output; how many
/// comments are lost is told. The file stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gatelodge policy fmt policy.json            print it
  gatelodge policy fmt --write policy.json    change the file
  gatelodge policy fmt --check policy.json    exit with 1 if it would change")]
pub struct FormatPolicyArgs {
    /// The policy; `-` is standard input.
    pub file: PathBuf,
    /// Change the file in place; JSON only.
    #[arg(long, conflicts_with = "check")]
    pub write: bool,
    /// Change nothing; say by the exit code whether it is laid out already.
    #[arg(long)]
    pub check: bool,
}

/// Checks a policy like `policy check`, and keeps it as the next version of a name.
///
/// A running gateway takes it up within a second. Old versions stay.
/// Says which counters begin at zero, because their window, scope or name is another.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gatelodge policy put books policy.json")]
pub struct PutPolicyArgs {
    /// The name that grants refer to.
    pub name: String,
    /// The policy; `-` is standard input.
    pub file: PathBuf,
    /// In which language it is written; else the file's name or its first character tells.
    #[arg(long, value_name = "LANGUAGE")]
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
    /// Its name.
    pub name: String,
    /// Which version; else the one in force.
    #[arg(long, value_name = "N")]
    pub version: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Puts an older version back in force. It becomes a new version, so that the log can name it.
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub struct RollbackPolicyArgs {
    /// The policy's name.
    pub name: String,
    /// The version to put back.
    pub version: u32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}
