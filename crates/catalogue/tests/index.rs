//! The index: what goes in comes out, what is asked for is found, and what is no index is told.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_catalogue::{
    About, ChangeKind, Claims, Flow, Index, Known, Level, OpenIndexError, PackageFacts, ParameterFacts, Posture, Query,
    SignalKind, Source, ToolFacts, changes, ready, write_index,
};
use gatelodge_policy::Category;
use proptest::prelude::*;

fn tool(name: &str, category: Category) -> ToolFacts {
    let parameter =
        |name: &str, kind: &str, required| ParameterFacts { name: name.into(), kind: kind.into(), required };
    ToolFacts {
        name: name.into(),
        parameters: vec![parameter("path", "string", true), parameter("depth", "integer", false)],
        claims: Claims { read_only: Some(false), open_world: Some(true), ..Claims::default() },
        category,
        confidence: 0.87,
        signals: vec![SignalKind::TakesPath, SignalKind::NoDescription],
        flow: vec![Flow::ReadsPrivate, Flow::SendsOutward],
        hash: "0123456789abcdef".into(),
        optional: false,
    }
}

fn package(source: Source, name: &str, tools: Vec<ToolFacts>) -> PackageFacts {
    PackageFacts { source, package: name.into(), version: "1.2.3".into(), date: Some("2026-11-01".into()), tools }
}

fn some() -> Vec<PackageFacts> {
    vec![
        package(
            Source::Npm,
            "@acme/files",
            vec![tool("delete_file", Category::Destructive), tool("readFile", Category::Read)],
        ),
        package(
            Source::Pypi,
            "mcp-server-git",
            vec![ToolFacts { optional: true, ..tool("git_commit", Category::Write) }, tool("git_log", Category::Read)],
        ),
        package(
            Source::Pypi,
            "Shell_Tools",
            vec![tool("run", Category::Execute), tool("ünïcode_läuft", Category::Unknown)],
        ),
    ]
}

fn about() -> About {
    let outcomes = [("tools".to_owned(), 3), ("no tools".to_owned(), 7)].into();
    About { date: "2026-11-16".into(), outcomes, ..About::default() }
}

fn file() -> Vec<u8> {
    write_index(some(), &about()).unwrap()
}

#[test]
fn what_goes_in_comes_out() {
    let index = Index::open(&file()).unwrap();
    let mut expected = some();
    expected.sort_by(|one, other| (one.source, &one.package).cmp(&(other.source, &other.package)));
    let facts: Vec<PackageFacts> = index.servers().map(|server| server.facts()).collect();
    assert_eq!(facts, expected);
    assert_eq!((index.about().servers, index.about().tools), (3, 6));
    assert_eq!((index.about().date.as_str(), index.about().outcomes["no tools"]), ("2026-11-16", 7));
}

#[test]
fn the_order_of_facts_does_not_matter_and_the_later_of_two_counts() {
    let mut turned = some();
    turned.reverse();
    turned[0].tools.reverse();
    assert_eq!(write_index(turned, &about()).unwrap(), file());
    let newer = PackageFacts { version: "2.0.0".into(), ..some().remove(0) };
    let index = Index::open(&write_index(some().into_iter().chain([newer]), &about()).unwrap()).unwrap();
    assert_eq!(index.find(None, "@acme/files").unwrap().version(), "2.0.0");
}

#[test]
fn facts_that_are_none_are_refused_with_their_package() {
    let told = |change: fn(&mut PackageFacts)| {
        let mut all = some();
        change(&mut all[0]);
        write_index(all, &about()).unwrap_err().to_string()
    };
    assert!(told(|package| package.tools[0].hash = "short".into()).contains("@acme/files"));
    assert!(told(|package| package.tools[0].name = "x".repeat(257)).contains("256"));
    assert!(told(|package| package.tools.clear()).contains("no tools"));
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_told_as_such() {
    let file = file();
    for end in 1..file.len() {
        let error = Index::open(&file[..end]).unwrap_err();
        assert!(matches!(error, OpenIndexError::Truncated { found, .. } if found == end), "{end}: {error}");
    }
}

#[test]
fn a_tool_that_is_there_only_under_a_setting_is_told_as_such() {
    let index = Index::open(&file()).unwrap();
    let server = index.find(None, "mcp-server-git").unwrap();
    let optional: Vec<_> = server.tools().filter(|tool| tool.is_optional()).map(|tool| tool.name()).collect();
    assert_eq!(optional, ["git_commit"]);
    let known = Known::of(&server);
    known.with(|tools| {
        let told: Vec<_> = tools.iter().map(|(tool, own)| (tool.name.as_ref(), own.optional)).collect();
        assert_eq!(told, [("git_commit", true), ("git_log", false)]);
    });
}

#[test]
fn the_format_before_is_still_read() {
    let mut older = file();
    older[8] = 1;
    assert_eq!(Index::open(&older).unwrap().servers().len(), 3);
    older[8] = 0;
    assert_eq!(Index::open(&older).unwrap_err(), OpenIndexError::Foreign);
}

#[test]
fn foreign_newer_and_damaged_files_are_told_apart() {
    for foreign in
        [&b""[..], b"PK\x03\x04", b"{\"a\": 1}", b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"]
    {
        assert_eq!(Index::open(foreign).unwrap_err(), OpenIndexError::Foreign);
    }
    let mut newer = file();
    newer[8] = 3;
    assert_eq!(Index::open(&newer).unwrap_err(), OpenIndexError::Newer { found: 3 });
    let mut damaged = file();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(Index::open(&damaged).unwrap_err(), OpenIndexError::Damaged);
    let mut longer = file();
    longer.push(0);
    assert_eq!(Index::open(&longer).unwrap_err(), OpenIndexError::Damaged);
    let mut huge = file();
    huge[12..20].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(Index::open(&huge).unwrap_err(), OpenIndexError::TooLarge);
}

/// Packs a body as the writer does, so that only what is inside is wrong.
fn packed(body: &[u8], says: usize) -> Vec<u8> {
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(body, 6);
    let mut file = b"GLINDEX\n\x01\0\0\0".to_vec();
    file.extend((says as u64).to_le_bytes());
    file.extend((packed.len() as u64).to_le_bytes());
    file.extend(crc32fast::hash(&packed).to_le_bytes());
    file.extend(packed);
    file
}

fn body() -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec_zlib(&file()[32..]).unwrap()
}

#[test]
fn a_body_that_unpacks_to_more_than_it_says_is_refused_before_it_does() {
    let bomb = packed(&vec![0; 60 << 20], 1_000);
    assert!(bomb.len() < 100_000);
    let used = allocation_counter::measure(|| {
        assert!(matches!(Index::open(&bomb).unwrap_err(), OpenIndexError::Malformed(_)));
    });
    assert!(used.bytes_max < 1 << 20, "{used:?}");
}

#[test]
fn texts_that_repeat_one_another_without_end_are_refused() {
    // A pool of a million texts, each the whole of the one before and one letter more.
    let mut body = Vec::new();
    let number = |mut number: usize, out: &mut Vec<u8>| {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    };
    let header = br#"{"about":{"date":"2026-11-16"},"signals":[]}"#;
    number(header.len(), &mut body);
    body.extend(header);
    let count = 1_000_000;
    number(count, &mut body);
    let (mut shared, mut lengths) = (Vec::new(), Vec::new());
    (0..count).for_each(|at| number(at, &mut shared));
    (0..count).for_each(|_| number(1, &mut lengths));
    for column in [shared, lengths, vec![b'a'; count]] {
        number(column.len(), &mut body);
        body.extend(column);
    }
    assert_eq!(Index::open(&packed(&body, body.len())).unwrap_err(), OpenIndexError::TooLarge);
}

#[test]
fn a_body_with_any_byte_changed_opens_or_is_refused_and_never_breaks() {
    let body = body();
    for at in 0..body.len() {
        for bit in [0x01, 0x80, 0xff] {
            let mut changed = body.clone();
            changed[at] ^= bit;
            if let Ok(index) = Index::open(&packed(&changed, changed.len())) {
                index.servers().for_each(|server| drop(server.facts()));
                index.search(&Query::words("e"), 0, 10);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_at_all_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Index::open(&bytes).is_err());
        prop_assert!(Index::open(&packed(&bytes, bytes.len())).is_err());
    }
}

fn names(index: &Index, query: &Query) -> Vec<String> {
    index.search(query, 0, 10).tools.iter().map(|tool| tool.name().to_owned()).collect()
}

#[test]
fn names_are_found_by_any_part_in_any_case_the_closest_first() {
    let index = Index::open(&file()).unwrap();
    assert_eq!(names(&index, &Query::words("READFILE")), ["readFile"]);
    assert_eq!(names(&index, &Query::words("file")), ["delete_file", "readFile"]);
    assert_eq!(names(&index, &Query::words("LÄUFT")), ["ünïcode_läuft"]);
    assert_eq!(names(&index, &Query::words("acme delete")), ["delete_file"]);
    assert_eq!(names(&index, &Query::words("acme git_log")), Vec::<String>::new());
    let mut prefix = Query::words("git_");
    prefix.is_prefix = true;
    assert_eq!(names(&index, &prefix), ["git_commit", "git_log"]);
    let mut inner = Query::words("file");
    inner.is_prefix = true;
    assert_eq!(names(&index, &inner), Vec::<String>::new());
    let found = index.search(&Query::words("git"), 0, 1);
    assert_eq!((found.servers[0].package(), found.tools.len(), found.tool_count), ("mcp-server-git", 1, 2));
    let more = index.search(&Query::words("git"), 1, 5);
    assert_eq!(more.tools.iter().map(|tool| tool.name()).collect::<Vec<_>>(), ["git_log"]);
}

#[test]
fn tools_are_found_by_category_level_and_signal() {
    let index = Index::open(&file()).unwrap();
    let by = |change: fn(&mut Query)| {
        let mut query = Query::default();
        change(&mut query);
        names(&index, &query)
    };
    assert_eq!(by(|query| query.category = Some(Category::Execute)), ["run"]);
    assert_eq!(by(|query| query.level = Some(Level::Critical)), ["delete_file"]);
    assert_eq!(by(|query| query.signal = Some(SignalKind::TakesPath)).len(), 6);
    assert_eq!(by(|query| query.signal = Some(SignalKind::TakesShell)).len(), 0);
    let mut both = Query::words("run");
    both.level = Some(Level::High);
    assert_eq!(names(&index, &both), ["run"]);
}

#[test]
fn packages_are_found_however_their_index_spells_them() {
    let index = Index::open(&file()).unwrap();
    assert_eq!(index.find(None, "shell-tools").unwrap().package(), "Shell_Tools");
    assert_eq!(index.find(Some(Source::Pypi), "SHELL.tools").unwrap().package(), "Shell_Tools");
    assert!(index.find(Some(Source::Npm), "shell-tools").is_none());
    assert!(index.find(None, "acme/files").is_none());
}

#[test]
fn a_recorded_category_stays_whatever_the_name_says_and_the_reasons_say_so() {
    let mut odd = tool("list_things", Category::Destructive);
    odd.signals = vec![SignalKind::TakesPath];
    let known = Known::of_facts("things", vec![odd, tool("delete_thing", Category::Destructive)]);
    known.with(|tools| {
        let (_, odd) = &tools[0];
        assert_eq!((odd.category, odd.level, odd.confidence), (Category::Destructive, Level::Critical, 0.87));
        assert!(odd.rationale.starts_with("What it takes away"), "{}", odd.rationale);
        assert!(odd.rationale.contains("its description decided"), "{}", odd.rationale);
        assert_eq!(odd.signals[0].parameter.as_deref(), Some("path"));
        let (_, plain) = &tools[1];
        assert!(
            plain.rationale.contains("`delete`") && plain.rationale.contains("no description"),
            "{}",
            plain.rationale
        );
    });
}

#[test]
fn ready_policies_of_indexed_servers_load() {
    let index = Index::open(&file()).unwrap();
    for server in index.servers() {
        let known = Known::of(&server);
        assert!(known.tokens() > 0);
        known.with(|tools| {
            let tools: Vec<_> = tools.iter().map(|(tool, known)| (tool, known)).collect();
            for posture in Posture::ALL {
                assert!(ready(server.package(), &tools, posture).unwrap().contains("\"default\": \"deny\""));
            }
        });
    }
}

#[test]
fn changes_between_two_indexes_are_told_the_gravest_of_each_tool() {
    let old = Index::open(&file()).unwrap();
    let mut later = some();
    later[0].tools[1].category = Category::Write;
    later[0].tools[1].hash = "f".repeat(16);
    later[1].tools[0].claims.read_only = None;
    later[1].tools.remove(1);
    later[2].tools.push(tool("new_one", Category::Write));
    later[2].tools[0].hash = "f".repeat(16);
    later.push(package(Source::Npm, "another", vec![tool("x", Category::Read)]));
    let new = Index::open(&write_index(later, &about()).unwrap()).unwrap();
    let told: Vec<(ChangeKind, String)> =
        changes(&old, &new).into_iter().map(|change| (change.kind, change.tool)).collect();
    let expected = [
        (ChangeKind::ToolAdded, "new_one"),
        (ChangeKind::DefinitionChanged, "run"),
        (ChangeKind::ClaimLost, "git_commit"),
        (ChangeKind::ToolRemoved, "git_log"),
        (ChangeKind::LevelRaised, "readFile"),
    ];
    assert_eq!(told, expected.map(|(kind, tool)| (kind, tool.to_owned())));
    assert!(changes(&old, &old).is_empty());
}
