//! Files for `stack` that are larger than anybody's.

use std::time::{Duration, Instant};

use super::with_index;

#[test]
fn a_file_with_many_servers_is_refused_before_they_are_looked_up() {
    let house = with_index();
    let servers = |count: usize, name: &dyn Fn(usize) -> String| {
        let each = (0..count).map(|at| format!("{}: {{\"url\": \"https://a\"}}", name(at)));
        format!("{{\"mcpServers\": {{{}}}}}", each.collect::<Vec<_>>().join(",\n"))
    };
    house.write("names.json", &servers(60_000, &|at| format!("\"s{at}\"")));
    // One name in each of many projects is one server, and has to be found as often.
    let one = servers(1, &|_| "\"s\"".to_owned());
    let projects: Vec<String> = (0..20_000).map(|at| format!("\"/{at}\": {one}")).collect();
    house.write("projects.json", &format!("{{\"projects\": {{{}}}}}", projects.join(",\n")));
    for file in ["names.json", "projects.json"] {
        for format in ["text", "sarif"] {
            let begun = Instant::now();
            let run = house.run(&["stack", file, "--format", format, "--index", "i.glx"]);
            assert!(run.code == 1 && run.stderr.contains("more than 1000 servers"), "{file}: {}", run.stderr);
            assert!(begun.elapsed() < Duration::from_secs(15), "{file}, {format}: {:?}", begun.elapsed());
        }
    }
}

#[test]
fn lines_of_a_large_file_are_found_in_one_go() {
    let house = with_index();
    let padding = format!("// {}\n", "x".repeat(4_000));
    let servers: Vec<String> =
        (0..900).map(|at| format!("{padding}\"s{at}\": {{\"url\": \"https://a{at}\"}}")).collect();
    // Projects without servers are many, too.
    let projects: Vec<String> = (0..20_000).map(|at| format!("\"/{at}\": {{\"mcpServers\": {{}}}}")).collect();
    let projects = projects.join(",");
    house.write(
        ".claude.json",
        &format!("{{\"mcpServers\": {{\n{}}},\n\"projects\": {{{projects}}}}}", servers.join(",\n")),
    );
    let begun = Instant::now();
    let found = super::agents::results(&house, &[".claude.json"]);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let lines: Vec<u64> = found.iter().map(|own| super::agents::spot(own).1).collect();
    assert_eq!(lines, (0..900).map(|at| 3 + 2 * at).collect::<Vec<u64>>());
}
