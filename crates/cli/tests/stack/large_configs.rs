//! `stack` with very large configuration files.

use std::time::{Duration, Instant};

use super::dir_with_index;

#[test]
fn a_file_with_many_servers_is_refused_before_lookups() {
    let dir = dir_with_index();
    let servers = |count: usize, name: &dyn Fn(usize) -> String| {
        let each = (0..count).map(|at| format!("{}: {{\"url\": \"https://a\"}}", name(at)));
        format!("{{\"mcpServers\": {{{}}}}}", each.collect::<Vec<_>>().join(",\n"))
    };
    dir.write("names.json", &servers(60_000, &|at| format!("\"s{at}\"")));
    // The same name in many projects is one server, but every occurrence must be located.
    let one = servers(1, &|_| "\"s\"".to_owned());
    let projects: Vec<String> = (0..20_000).map(|at| format!("\"/{at}\": {one}")).collect();
    dir.write("projects.json", &format!("{{\"projects\": {{{}}}}}", projects.join(",\n")));
    for file in ["names.json", "projects.json"] {
        for format in ["text", "sarif"] {
            let start = Instant::now();
            let run = dir.run(&["stack", file, "--format", format, "--index", "i.glx"]);
            assert!(run.code == 1 && run.stderr.contains("more than 1000 servers"), "{file}: {}", run.stderr);
            assert!(start.elapsed() < Duration::from_secs(15), "{file}, {format}: {:?}", start.elapsed());
        }
    }
}

#[test]
fn lines_of_a_large_file_are_found_in_one_pass() {
    let dir = dir_with_index();
    let padding = format!("// {}\n", "x".repeat(4_000));
    let servers: Vec<String> =
        (0..900).map(|at| format!("{padding}\"s{at}\": {{\"url\": \"https://a{at}\"}}")).collect();
    // Also many projects without servers.
    let projects: Vec<String> = (0..20_000).map(|at| format!("\"/{at}\": {{\"mcpServers\": {{}}}}")).collect();
    let projects = projects.join(",");
    dir.write(
        ".claude.json",
        &format!("{{\"mcpServers\": {{\n{}}},\n\"projects\": {{{projects}}}}}", servers.join(",\n")),
    );
    let start = Instant::now();
    let found = super::stack_scope::results(&dir, &[".claude.json"]);
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let lines: Vec<u64> = found.iter().map(|result| super::stack_scope::location(result).1).collect();
    assert_eq!(lines, (0..900).map(|at| 3 + 2 * at).collect::<Vec<u64>>());
}
