//! scratch
use gatelodge_catalogue::*;
use std::collections::BTreeMap;
fn main() {
    let text = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    let worst: usize = std::env::args().nth(2).and_then(|w| w.parse().ok()).unwrap_or(0);
    let documents = read_tools(&text);
    let mut tools = Vec::new();
    for (number, document) in &documents {
        match document {
            Ok(d) => {
                for item in Item::all(d, *number) {
                    match item.and_then(labelled) {
                        Ok(l) => tools.push(l),
                        Err(e) => eprintln!("{e}"),
                    }
                }
            }
            Err(e) => eprintln!("{e}"),
        }
    }
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for t in &tools {
        names.entry(t.item.family()).or_default().push(&t.item.tool.name);
    }
    let servers: BTreeMap<&String, Server> =
        names.iter().map(|(k, v)| (k, Server::new(k, None, v.iter().copied()))).collect();
    let mut e = Evaluation::default();
    for t in &tools {
        let c = classify(&t.item.tool, &servers[&t.item.family()]);
        if worst == 9999 {
            println!(
                "{} {} {} {:.2} {}",
                t.item.tool.name,
                t.label.map(|l| l.as_str()).unwrap_or("-"),
                c.level.as_str(),
                c.confidence,
                serde_json::to_string_pretty(&c).unwrap()
            );
        }
        e.add(&t.item.server, &t.item.tool.name, t.label, &c);
    }
    e.finish();
    println!("right {:?} {:.3} unl {}", e.right, e.right.value(), e.unlabelled);
    println!(
        "read {:.3} dest {:.3} called_read {:.3} {:?} ece {:.3}",
        e.read_or_not.value(),
        e.destructive_or_not.value(),
        e.called_read.value(),
        e.called_read,
        e.calibration_error()
    );
    for (k, v) in &e.confusion {
        println!("{k}: {v:?}");
    }
    for b in &e.bins {
        print!("{}/{} {:.2}  ", b.right.count, b.right.of, b.claimed / b.right.of.max(1) as f64);
    }
    println!();
    for m in e.mistakes.iter().take(worst) {
        println!("{} / {}: is {}, said {} {:.2}: {}", m.server, m.tool, m.label, m.answer, m.confidence, m.rationale);
    }
}
