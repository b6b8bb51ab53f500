//! `gatelodge docs`: generates documentation pages from the program's built-in tables and help texts.

use anyhow::Result;
use clap::{Command, CommandFactory};
use gatelodge_server::config;

use crate::cli::{Cli, DocsArgs, DocsPage};
use crate::exit_code::CommandExitCode;
use crate::stdout_output;

/// Maximum line width of help texts on the generated page.
const HELP_WIDTH: usize = 100;

pub fn run(args: &DocsArgs) -> Result<CommandExitCode> {
    match args.page {
        DocsPage::Config => stdout_output::print(&config::config_page())?,
        DocsPage::Cli => stdout_output::print(&commands_page())?,
        DocsPage::Clients => stdout_output::print(&gatelodge_clients::clients_page())?,
    }
    Ok(CommandExitCode::Success)
}

fn commands_page() -> String {
    let mut out =
        "# Command line\n\nEach command explains itself with `--help`; this page is generated from the same texts.\n\n\
        Results go to standard output, everything else to standard error.\n\
        Exit codes: 0 success, 1 findings, 2 usage, 3 denied, 4 unreachable, 5 internal error.\n\n\
        With `--json`, results are JSON; an error that ends a command is also printed on standard output, as\n\
        `{\"error\": {\"message\": \"…\", \"exit_code\": 2}}`.\n"
            .to_owned();
    let mut root = Cli::command().term_width(HELP_WIDTH);
    root.build();
    for command in root.get_subcommands() {
        write_command(command, &mut out);
    }
    out
}

fn write_command(command: &Command, out: &mut String) {
    // Every group has a `help`, which prints the same text as `--help`.
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    if !command.has_subcommands() {
        let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
        let help = command.clone().term_width(HELP_WIDTH).render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        out.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    }
    command.get_subcommands().for_each(|command| write_command(command, out));
}
