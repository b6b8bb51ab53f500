//! The package index: round trips, searches, and errors for invalid files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::convert::Infallible;

use gatelodge_catalogue::{
    DataFlowLabel, IndexMetadata, IndexQuery, IndexedToolParameter, OpenIndexError, PackageFacts, PackageIndex,
    PackageRegistry, RiskLevel, RiskSignalKind, ServerCatalogueEntry, StarterPolicyStrictness, StaticSite,
    ToolChangeKind, ToolFacts, ToolHints, index_changes, starter_policy,
};
use gatelodge_indexer::write_index;
use gatelodge_policy::Category;
use proptest::prelude::*;

fn tool(name: &str, category: Category) -> ToolFacts {
    let parameter =
        |name: &str, kind: &str, required| IndexedToolParameter { name: name.into(), kind: kind.into(), required };
    ToolFacts {
        name: name.into(),
        parameters: vec![parameter("path", "string", true), parameter("depth", "integer", false)],
        claims: ToolHints { read_only: Some(false), open_world: Some(true), ..ToolHints::default() },
        category,
        confidence: 0.87,
        signals: vec![RiskSignalKind::TakesPath, RiskSignalKind::NoDescription],
        flow: vec![DataFlowLabel::ReadsPrivate, DataFlowLabel::SendsOutward],
        hash: "0123456789abcdef".into(),
        optional: false,
    }
}

fn package(source: PackageRegistry, name: &str, tools: Vec<ToolFacts>) -> PackageFacts {
    PackageFacts { source, package: name.into(), version: "1.2.3".into(), date: Some("2026-11-01".into()), tools }
}

fn sample_packages() -> Vec<PackageFacts> {
    vec![
        package(
            PackageRegistry::Npm,
            "@acme/files",
            vec![tool("delete_file", Category::Destructive), tool("readFile", Category::Read)],
        ),
        package(
            PackageRegistry::Pypi,
            "mcp-server-git",
            vec![ToolFacts { optional: true, ..tool("git_commit", Category::Write) }, tool("git_log", Category::Read)],
        ),
        package(
            PackageRegistry::Pypi,
            "shell-tools",
            vec![tool("run", Category::Execute), tool("ünïcode_läuft", Category::Unknown)],
        ),
    ]
}

fn sample_metadata() -> IndexMetadata {
    let outcomes = [("tools".to_owned(), 3), ("no tools".to_owned(), 7)].into();
    IndexMetadata { date: "2026-11-16".into(), outcomes, ..IndexMetadata::default() }
}

fn index_file() -> Vec<u8> {
    write_index(sample_packages(), &sample_metadata()).unwrap()
}

#[test]
fn facts_survive_a_round_trip() {
    let index = PackageIndex::open(&index_file()).unwrap();
    let mut expected = sample_packages();
    expected.sort_by(|one, other| (one.source, &one.package).cmp(&(other.source, &other.package)));
    let facts: Vec<PackageFacts> = index.servers().map(|server| server.facts()).collect();
    assert_eq!(facts, expected);
    assert_eq!((index.metadata().servers, index.metadata().tools), (3, 6));
    assert_eq!((index.metadata().date.as_str(), index.metadata().outcomes["no tools"]), ("2026-11-16", 7));
}

#[test]
fn the_order_of_facts_does_not_matter_and_later_facts_of_a_package_count() {
    let mut reordered = sample_packages();
    reordered.reverse();
    reordered[0].tools.reverse();
    assert_eq!(write_index(reordered, &sample_metadata()).unwrap(), index_file());
    let newer = PackageFacts { version: "2.0.0".into(), ..sample_packages().remove(0) };
    let index =
        PackageIndex::open(&write_index(sample_packages().into_iter().chain([newer]), &sample_metadata()).unwrap())
            .unwrap();
    assert_eq!(index.find(None, "@acme/files").unwrap().version(), "2.0.0");
}

#[test]
fn invalid_facts_are_refused_with_their_package() {
    let reported = |change: fn(&mut PackageFacts)| {
        let mut all = sample_packages();
        change(&mut all[0]);
        write_index(all, &sample_metadata()).unwrap_err().to_string()
    };
    assert!(reported(|package| package.tools[0].hash = "short".into()).contains("@acme/files"));
    assert!(reported(|package| package.tools[0].name = "x".repeat(257)).contains("256"));
    assert!(reported(|package| package.version = "9".repeat(257)).contains("its version is longer than 256 bytes"));
    assert!(reported(|package| package.tools.clear()).contains("no tools"));
    assert!(reported(|package| package.date = Some("yesterday".into())).contains("date"));
}

#[test]
fn truncated_file_is_reported_as_truncated() {
    let file = index_file();
    for end in 1..file.len() {
        let error = PackageIndex::open(&file[..end]).unwrap_err();
        assert!(matches!(error, OpenIndexError::Truncated { found, .. } if found == end), "{end}: {error}");
    }
}

#[test]
fn tool_that_depends_on_a_setting_is_marked_optional() {
    let index = PackageIndex::open(&index_file()).unwrap();
    let server = index.find(None, "mcp-server-git").unwrap();
    let optional: Vec<_> = server.tools().filter(|tool| tool.is_optional()).map(|tool| tool.name()).collect();
    assert_eq!(optional, ["git_commit"]);
    let known = ServerCatalogueEntry::of(&server);
    known.with_classifications(|tools| {
        let reported: Vec<_> = tools.iter().map(|(tool, own)| (tool.name.as_ref(), own.optional)).collect();
        assert_eq!(reported, [("git_commit", true), ("git_log", false)]);
    });
}

#[test]
fn the_previous_format_is_still_read() {
    let mut older = index_file();
    older[8] = 1;
    assert_eq!(PackageIndex::open(&older).unwrap().servers().len(), 3);
    older[8] = 0;
    assert_eq!(PackageIndex::open(&older).unwrap_err(), OpenIndexError::NotAnIndex);
}

#[test]
fn foreign_newer_and_damaged_files_have_different_errors() {
    for foreign in
        [&b""[..], b"PK\x03\x04", b"{\"a\": 1}", b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"]
    {
        assert_eq!(PackageIndex::open(foreign).unwrap_err(), OpenIndexError::NotAnIndex);
    }
    let mut newer = index_file();
    newer[8] = 3;
    assert_eq!(PackageIndex::open(&newer).unwrap_err(), OpenIndexError::NewerFormat { found: 3 });
    let mut damaged = index_file();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(PackageIndex::open(&damaged).unwrap_err(), OpenIndexError::Damaged);
    let mut longer = index_file();
    longer.push(0);
    assert_eq!(PackageIndex::open(&longer).unwrap_err(), OpenIndexError::Damaged);
    let mut huge = index_file();
    huge[12..20].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(PackageIndex::open(&huge).unwrap_err(), OpenIndexError::TooLarge);
}

/// Compresses a body like the writer, so that only its contents are wrong.
fn compress_body(body: &[u8], declared_bytes: usize) -> Vec<u8> {
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(body, 6);
    let mut file = b"GLINDEX\n\x01\0\0\0".to_vec();
    file.extend((declared_bytes as u64).to_le_bytes());
    file.extend((packed.len() as u64).to_le_bytes());
    file.extend(crc32fast::hash(&packed).to_le_bytes());
    file.extend(packed);
    file
}

fn valid_body() -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec_zlib(&index_file()[32..]).unwrap()
}

#[test]
fn a_body_larger_than_declared_is_refused_before_it_is_decompressed() {
    let bomb = compress_body(&vec![0; 60 << 20], 1_000);
    assert!(bomb.len() < 100_000);
    let used = allocation_counter::measure(|| {
        assert!(matches!(PackageIndex::open(&bomb).unwrap_err(), OpenIndexError::Malformed(_)));
    });
    assert!(used.bytes_max < 1 << 20, "{used:?}");
}

fn push_number(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn push_column(bytes: &[u8], out: &mut Vec<u8>) {
    push_number(bytes.len(), out);
    out.extend(bytes);
}

/// Parts of an index, so that a test can make one of them wrong.
#[derive(Clone)]
struct IndexParts {
    header: serde_json::Value,
    /// Packages, versions, dates, names, parameters.
    string_tables: [Vec<&'static str>; 5],
    /// Source, package, version, date, number of tools.
    servers: Vec<[usize; 5]>,
    /// Step of the name, parameters, claims, category, confidence, signals, flow.
    tools: Vec<[usize; 7]>,
    /// Name and type.
    takes: Vec<[usize; 2]>,
}

impl IndexParts {
    fn new() -> Self {
        Self {
            header: serde_json::json!({"about": {"date": "2026-11-16"}, "signals": ["takes_path", "takes_code"]}),
            string_tables: [vec!["a", "b"], vec!["1.0"], vec!["", "2026-11-01"], vec!["get", "put"], vec!["path"]],
            servers: vec![[0, 0, 0, 0, 2], [1, 1, 0, 1, 1]],
            tools: vec![[0, 1, 0, 0, 90, 1, 1], [0, 0, 0, 1, 90, 2, 2], [1, 1, 0, 3, 90, 3, 4]],
            takes: vec![[0, 1], [0, 0x81]],
        }
    }

    fn file(&self) -> Vec<u8> {
        let mut body = Vec::new();
        push_column(self.header.to_string().as_bytes(), &mut body);
        for table in &self.string_tables {
            let lengths: Vec<u8> = table
                .iter()
                .flat_map(|text| {
                    let mut out = Vec::new();
                    push_number(text.len(), &mut out);
                    out
                })
                .collect();
            push_number(table.len(), &mut body);
            [vec![0; table.len()], lengths, table.concat().into_bytes()]
                .iter()
                .for_each(|own| push_column(own, &mut body));
        }
        let by_column = |rows: &[&[usize]], body: &mut Vec<u8>| {
            for at in 0..rows.first().map_or(0, |row| row.len()) {
                let mut own = Vec::new();
                rows.iter().for_each(|row| push_number(row[at], &mut own));
                push_column(&own, body);
            }
        };
        push_number(self.servers.len(), &mut body);
        by_column(&self.servers.iter().map(|row| &row[..]).collect::<Vec<_>>(), &mut body);
        by_column(&self.tools.iter().map(|row| &row[..]).collect::<Vec<_>>(), &mut body);
        push_column(&vec![7; 8 * self.tools.len()], &mut body);
        let (mut names, mut kinds) = (Vec::new(), Vec::new());
        self.takes.iter().for_each(|[name, kind]| {
            push_number(*name, &mut names);
            kinds.push(*kind as u8);
        });
        [names, kinds].iter().for_each(|own| push_column(own, &mut body));
        compress_body(&body, body.len())
    }

    fn open_changed(change: impl FnOnce(&mut Self)) -> Result<PackageIndex, OpenIndexError> {
        let mut parts = Self::new();
        change(&mut parts);
        let opened = PackageIndex::open(&parts.file());
        if let Ok(index) = &opened {
            query_everything(index);
        }
        opened
    }
}

/// Runs every kind of query on an index.
fn query_everything(index: &PackageIndex) {
    for server in index.servers() {
        let known = ServerCatalogueEntry::of(&server);
        known.with_classifications(|tools| assert_eq!(tools.len(), server.tools().len()));
        assert!(known.tools.iter().all(|tool| server.tool(&tool.name).is_some()));
        assert!(index.find(None, server.package()).is_some());
    }
    index.search(&IndexQuery::from_words("e"), 0, 10);
    // Compare with an index of other versions, in which each tool is found by its name.
    let packages = index.servers().map(|server| PackageFacts { version: "later".to_owned(), ..server.facts() });
    let later = PackageIndex::open(&write_index(packages, index.metadata()).unwrap()).unwrap();
    assert_eq!(index_changes(index, &later).count(), 0);
    assert_eq!(index_changes(&later, index).count(), 0);
    let done: Result<(), Infallible> = StaticSite::new(index, index.servers().collect()).write(|_| Ok(()));
    assert!(done.is_ok());
}

#[test]
fn a_malformed_part_in_a_valid_file_is_refused() {
    assert!(IndexParts::open_changed(|_| {}).is_ok());
    let signals =
        |words: Vec<&str>| IndexParts::open_changed(|parts| parts.header["signals"] = serde_json::json!(words));
    let assert_malformed = |opened: Result<PackageIndex, OpenIndexError>, says: &str| match opened {
        Err(OpenIndexError::Malformed(why)) => assert!(why.contains(says), "{why} instead of {says}"),
        other => panic!("{says}: {other:?}"),
    };
    for count in [RiskSignalKind::ALL.len() + 1, 64, 65, 1_000] {
        assert_malformed(signals(vec!["takes_path"; count]), "signals than this program knows");
    }
    assert_malformed(signals(vec!["takes_path", "takes_code", "takes_path"]), "signal twice");
    assert_malformed(signals(vec!["takes_path", "nonsense"]), "unknown signal");
    assert_malformed(signals(vec![]), "invalid signal");
    for date in ["", "yesterday", "2026-11-1", "2026-11-16 ", "2026/11/16", "\u{1b}[31m-01-01", "٢٠٢٦-١١"] {
        assert_malformed(
            IndexParts::open_changed(|parts| parts.header["about"]["date"] = date.into()),
            "date is invalid",
        );
        if !date.is_empty() {
            assert_malformed(IndexParts::open_changed(|parts| parts.string_tables[2][1] = date), "date is invalid");
        }
    }
    assert_malformed(IndexParts::open_changed(|parts| parts.servers.swap(0, 1)), "not sorted");
    assert_malformed(IndexParts::open_changed(|parts| parts.servers[1] = [0, 0, 0, 0, 1]), "not sorted");
    assert_malformed(IndexParts::open_changed(|parts| parts.string_tables[0] = vec!["b", "a"]), "not sorted");
    assert_malformed(IndexParts::open_changed(|parts| parts.string_tables[0] = vec!["a", "a"]), "not sorted");
    assert_malformed(IndexParts::open_changed(|parts| parts.string_tables[3] = vec!["put", "get"]), "not sorted");
    assert_malformed(IndexParts::open_changed(|parts| parts.string_tables[3] = vec!["", "get"]), "empty");
    // A version of a megabyte would be copied to each change event.
    assert_malformed(
        IndexParts::open_changed(|parts| parts.string_tables[1] = vec!["9".repeat(257).leak()]),
        "version is too long",
    );
    assert!(IndexParts::open_changed(|parts| parts.string_tables[1] = vec!["9".repeat(256).leak()]).is_ok());
    assert_malformed(IndexParts::open_changed(|parts| parts.servers[0][4] = 0), "no tools");
    assert_malformed(IndexParts::open_changed(|parts| parts.servers[0][0] = 9), "source");
    assert_malformed(IndexParts::open_changed(|parts| parts.tools[0][3] = 9), "category");
}

#[derive(Debug, Clone)]
enum PartChange {
    Signals(usize),
    Server(usize, usize, usize),
    Tool(usize, usize, usize),
    Take(usize, usize, usize),
    Table(usize, Vec<&'static str>),
    Drop(usize),
}

fn part_change() -> impl Strategy<Value = PartChange> {
    let number = prop_oneof![0_usize..8, Just(127), Just(255), Just(u32::MAX as usize), Just(usize::MAX >> 1)];
    let text = proptest::sample::select(vec!["", "a", "b", "get", "put", "zzz", "2026-11-01", "\u{202e}", "<b>"]);
    prop_oneof![
        (0_usize..80).prop_map(PartChange::Signals),
        (0_usize..2, 0_usize..5, number.clone()).prop_map(|(row, at, to)| PartChange::Server(row, at, to)),
        (0_usize..3, 0_usize..7, number.clone()).prop_map(|(row, at, to)| PartChange::Tool(row, at, to)),
        (0_usize..2, 0_usize..2, number).prop_map(|(row, at, to)| PartChange::Take(row, at, to)),
        (0_usize..5, proptest::collection::vec(text, 0..4)).prop_map(|(table, texts)| PartChange::Table(table, texts)),
        (0_usize..3).prop_map(PartChange::Drop),
    ]
}

proptest! {
    #[test]
    fn malformed_parts_are_refused_without_a_panic(all in proptest::collection::vec(part_change(), 1..4)) {
        let _ = IndexParts::open_changed(|parts| {
            for own in all {
                match own {
                    PartChange::Signals(count) => {
                        let words = RiskSignalKind::ALL.iter().cycle().take(count).map(|kind| kind.as_str());
                        parts.header["signals"] = serde_json::json!(words.collect::<Vec<_>>());
                    }
                    PartChange::Server(row, at, to) => parts.servers.get_mut(row).into_iter().for_each(|own| own[at] = to),
                    PartChange::Tool(row, at, to) => parts.tools.get_mut(row).into_iter().for_each(|own| own[at] = to),
                    PartChange::Take(row, at, to) => parts.takes.get_mut(row).into_iter().for_each(|own| own[at] = to),
                    PartChange::Table(table, texts) => parts.string_tables[table] = texts,
                    PartChange::Drop(0) => drop(parts.servers.pop()),
                    PartChange::Drop(1) => drop(parts.tools.pop()),
                    PartChange::Drop(_) => drop(parts.takes.pop()),
                }
            }
        });
    }
}

#[test]
fn strings_that_expand_without_bound_are_refused() {
    // A table of a million strings, each of which is the previous string and one more letter.
    let mut body = Vec::new();
    let header = br#"{"about":{"date":"2026-11-16"},"signals":[]}"#;
    push_number(header.len(), &mut body);
    body.extend(header);
    let count = 1_000_000;
    push_number(count, &mut body);
    let (mut shared, mut lengths) = (Vec::new(), Vec::new());
    (0..count).for_each(|at| push_number(at, &mut shared));
    (0..count).for_each(|_| push_number(1, &mut lengths));
    for column in [shared, lengths, vec![b'a'; count]] {
        push_number(column.len(), &mut body);
        body.extend(column);
    }
    assert_eq!(PackageIndex::open(&compress_body(&body, body.len())).unwrap_err(), OpenIndexError::TooLarge);
}

#[test]
fn a_body_with_a_changed_byte_opens_or_is_refused_without_a_panic() {
    let body = valid_body();
    for at in 0..body.len() {
        for bit in [0x01, 0x80, 0xff] {
            let mut changed = body.clone();
            changed[at] ^= bit;
            if let Ok(index) = PackageIndex::open(&compress_body(&changed, changed.len())) {
                index.servers().for_each(|server| drop(server.facts()));
                index.search(&IndexQuery::from_words("e"), 0, 10);
            }
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_in_place_of_a_part_are_refused_or_read(
        from in 0_usize..2_000, length in 0_usize..40, bytes in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut body = valid_body();
        let from = from % body.len();
        body.splice(from..(from + length).min(body.len()), bytes);
        if let Ok(index) = PackageIndex::open(&compress_body(&body, body.len())) {
            query_everything(&index);
        }
    }
}

fn names(index: &PackageIndex, query: &IndexQuery) -> Vec<String> {
    index.search(query, 0, 10).tools.iter().map(|tool| tool.name().to_owned()).collect()
}

#[test]
fn names_are_found_by_any_part_in_any_case_best_match_first() {
    let index = PackageIndex::open(&index_file()).unwrap();
    assert_eq!(names(&index, &IndexQuery::from_words("READFILE")), ["readFile"]);
    assert_eq!(names(&index, &IndexQuery::from_words("file")), ["delete_file", "readFile"]);
    assert_eq!(names(&index, &IndexQuery::from_words("LÄUFT")), ["ünïcode_läuft"]);
    assert_eq!(names(&index, &IndexQuery::from_words("acme delete")), ["delete_file"]);
    assert_eq!(names(&index, &IndexQuery::from_words("acme git_log")), Vec::<String>::new());
    let mut prefix = IndexQuery::from_words("git_");
    prefix.is_prefix = true;
    assert_eq!(names(&index, &prefix), ["git_commit", "git_log"]);
    let mut inner = IndexQuery::from_words("file");
    inner.is_prefix = true;
    assert_eq!(names(&index, &inner), Vec::<String>::new());
    let found = index.search(&IndexQuery::from_words("git"), 0, 1);
    assert_eq!((found.servers[0].package(), found.tools.len(), found.tool_count), ("mcp-server-git", 1, 2));
    let more = index.search(&IndexQuery::from_words("git"), 1, 5);
    assert_eq!(more.tools.iter().map(|tool| tool.name()).collect::<Vec<_>>(), ["git_log"]);
}

#[test]
fn tools_are_found_by_category_level_and_signal() {
    let index = PackageIndex::open(&index_file()).unwrap();
    let by = |change: fn(&mut IndexQuery)| {
        let mut query = IndexQuery::default();
        change(&mut query);
        names(&index, &query)
    };
    assert_eq!(by(|query| query.category = Some(Category::Execute)), ["run"]);
    assert_eq!(by(|query| query.level = Some(RiskLevel::Critical)), ["delete_file"]);
    assert_eq!(by(|query| query.signal = Some(RiskSignalKind::TakesPath)).len(), 6);
    assert_eq!(by(|query| query.signal = Some(RiskSignalKind::TakesShell)).len(), 0);
    let mut both = IndexQuery::from_words("run");
    both.level = Some(RiskLevel::High);
    assert_eq!(names(&index, &both), ["run"]);
}

#[test]
fn of_two_packages_with_one_name_the_riskier_is_found_unless_a_source_is_given() {
    for (npm, pypi, riskier) in [
        (Category::Destructive, Category::Read, PackageRegistry::Npm),
        (Category::Read, Category::Destructive, PackageRegistry::Pypi),
    ] {
        let both = [
            package(PackageRegistry::Npm, "mail", vec![tool("x", npm)]),
            package(PackageRegistry::Pypi, "mail", vec![tool("x", pypi)]),
        ];
        let index = PackageIndex::open(&write_index(both, &sample_metadata()).unwrap()).unwrap();
        let found = index.find(None, "mail").unwrap();
        assert_eq!(found.source(), riskier);
        assert_ne!(index.same_name_elsewhere(&found).unwrap().source(), riskier);
        assert_eq!(index.find(Some(PackageRegistry::Npm), "mail").unwrap().source(), PackageRegistry::Npm);
        assert_eq!(index.find(Some(PackageRegistry::Pypi), "mail").unwrap().source(), PackageRegistry::Pypi);
    }
    let index = PackageIndex::open(&index_file()).unwrap();
    assert!(index.same_name_elsewhere(&index.find(None, "shell-tools").unwrap()).is_none());
}

#[test]
fn packages_are_found_in_every_spelling() {
    let index = PackageIndex::open(&index_file()).unwrap();
    assert_eq!(index.find(None, "shell-tools").unwrap().package(), "shell-tools");
    assert_eq!(index.find(Some(PackageRegistry::Pypi), "SHELL.tools").unwrap().package(), "shell-tools");
    assert!(index.find(Some(PackageRegistry::Npm), "shell-tools").is_none());
    assert!(index.find(None, "acme/files").is_none());
}

#[test]
fn python_packages_are_stored_by_their_normalized_name() {
    let own = vec![tool("get_book", Category::Read)];
    let packages = [
        package(PackageRegistry::Pypi, "Book__MCP.Server", own.clone()),
        package(PackageRegistry::Npm, "Book_MCP", own),
    ];
    let index = PackageIndex::open(&write_index(packages, &sample_metadata()).expect("written")).expect("opens");
    let mut names: Vec<String> = index.servers().map(|server| server.package().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["Book_MCP", "book-mcp-server"]);
}

#[test]
fn a_stored_category_overrides_the_name_and_the_rationale_says_so() {
    let mut odd = tool("list_things", Category::Destructive);
    odd.signals = vec![RiskSignalKind::TakesPath];
    let known = ServerCatalogueEntry::from_facts("things", vec![odd, tool("delete_thing", Category::Destructive)]);
    known.with_classifications(|tools| {
        let (_, odd) = &tools[0];
        assert_eq!((odd.category, odd.level, odd.confidence), (Category::Destructive, RiskLevel::Critical, 0.87));
        assert!(odd.rationale.starts_with("What it removes"), "{}", odd.rationale);
        assert!(odd.rationale.contains("decided by its description"), "{}", odd.rationale);
        assert!(!odd.rationale.contains("nothing in its name, its description"), "{}", odd.rationale);
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
fn rationale_does_not_mention_a_description_that_is_not_stored() {
    let categories = [
        Category::Read,
        Category::Write,
        Category::Execute,
        Category::Destructive,
        Category::Financial,
        Category::Unknown,
    ];
    for name in ["get_thing", "frobnicate", "git_reset", "thing"] {
        for category in categories {
            let mut own = tool(name, category);
            own.signals = vec![RiskSignalKind::TakesPath];
            ServerCatalogueEntry::from_facts("things", vec![own]).with_classifications(|tools| {
                let (_, known) = &tools[0];
                let all = format!("{} {}", known.rationale, known.evidence.join(" "));
                // The index records that the description decided, but not its text.
                for forbidden in [
                    "its description does not",
                    "its description and",
                    "in its description",
                    "its name, its description",
                ] {
                    assert!(!all.contains(forbidden), "{name} {category:?}: {all}");
                }
                assert!(!all.contains("no description"), "{name} {category:?}: {all}");
            });
        }
    }
}

#[test]
fn recommended_policies_of_indexed_servers_load() {
    let index = PackageIndex::open(&index_file()).unwrap();
    for server in index.servers() {
        let known = ServerCatalogueEntry::of(&server);
        assert!(known.estimated_tokens() > 0);
        known.with_classifications(|tools| {
            let tools: Vec<_> = tools.iter().map(|(tool, known)| (tool, known)).collect();
            for strictness in StarterPolicyStrictness::ALL {
                assert!(
                    starter_policy(server.package(), &tools, strictness).unwrap().contains("\"default\": \"deny\"")
                );
            }
        });
    }
}

#[test]
fn index_changes_list_the_most_serious_change_of_each_tool() {
    let old = PackageIndex::open(&index_file()).unwrap();
    let mut later = sample_packages();
    later[0].tools[1].category = Category::Write;
    later[0].tools[1].hash = "f".repeat(16);
    later[1].tools[0].claims.read_only = None;
    later[1].tools.remove(1);
    later[2].tools.push(tool("new_one", Category::Write));
    later[2].tools[0].hash = "f".repeat(16);
    // If the same version reads differently, the package did not change.
    let again = PackageIndex::open(&write_index(later.clone(), &sample_metadata()).unwrap()).unwrap();
    assert_eq!(index_changes(&old, &again).count(), 0);
    later.iter_mut().for_each(|package| package.version = "1.2.4".into());
    later.push(package(PackageRegistry::Npm, "another", vec![tool("x", Category::Read)]));
    let new = PackageIndex::open(&write_index(later, &sample_metadata()).unwrap()).unwrap();
    let reported: Vec<(ToolChangeKind, String)> = index_changes(&old, &new)
        .flat_map(|server| server.first_changes(9))
        .map(|change| (change.kind, change.tool))
        .collect();
    let expected = [
        (ToolChangeKind::ClaimLost, "git_commit"),
        (ToolChangeKind::ToolRemoved, "git_log"),
        (ToolChangeKind::ToolAdded, "new_one"),
        (ToolChangeKind::DefinitionChanged, "run"),
        (ToolChangeKind::LevelRaised, "readFile"),
    ];
    assert_eq!(reported, expected.map(|(kind, tool)| (kind, tool.to_owned())));
}

#[test]
fn packages_with_a_different_spelling_are_compared() {
    let mut body = valid_body();
    let at = body.windows(11).position(|part| part == b"shell-tools").expect("its name");
    body[at..at + 11].copy_from_slice(b"shell_tools");
    let old = PackageIndex::open(&compress_body(&body, body.len())).unwrap();
    assert!(old.servers().any(|server| server.package() == "shell_tools"));
    let mut later = sample_packages();
    later[2].version = "1.2.4".into();
    later[2].tools.push(tool("new_one", Category::Write));
    let new = PackageIndex::open(&write_index(later, &sample_metadata()).unwrap()).unwrap();
    let reported: Vec<_> = index_changes(&old, &new).flat_map(|server| server.first_changes(9)).collect();
    assert_eq!(reported.iter().map(|change| change.tool.as_str()).collect::<Vec<_>>(), ["new_one"]);
    assert_eq!(reported[0].package, "shell-tools");
}

#[test]
fn reclassified_tool_with_an_equal_definition_has_not_changed() {
    let old = PackageIndex::open(&index_file()).unwrap();
    let mut later = sample_packages();
    later.iter_mut().for_each(|package| package.version = "1.2.4".into());
    later[0].tools[1].category = Category::Destructive;
    let new = PackageIndex::open(&write_index(later.clone(), &sample_metadata()).unwrap()).unwrap();
    assert_eq!(index_changes(&old, &new).count(), 0);
    // With other annotations it has changed.
    later[0].tools[1].claims.destructive = Some(true);
    let new = PackageIndex::open(&write_index(later, &sample_metadata()).unwrap()).unwrap();
    let kinds: Vec<_> =
        index_changes(&old, &new).flat_map(|server| server.first_changes(9)).map(|change| change.kind).collect();
    assert_eq!(kinds, [ToolChangeKind::LevelRaised]);
}

#[test]
fn most_serious_changes_are_listed_and_the_others_counted() {
    let index = |version: &str, tools: Vec<ToolFacts>| {
        let package = PackageFacts { version: version.into(), ..package(PackageRegistry::Npm, "busy", tools) };
        PackageIndex::open(&write_index([package], &sample_metadata()).unwrap()).unwrap()
    };
    let kept = |category| tool("kept", category);
    let old = index("1", vec![kept(Category::Read), tool("a", Category::Destructive), tool("b", Category::Read)]);
    let raised = ToolFacts { hash: "f".repeat(16), ..kept(Category::Write) };
    let new = index("2", vec![raised, tool("c", Category::Read), tool("d", Category::Financial)]);
    let all: Vec<_> = index_changes(&old, &new).collect();
    assert_eq!((all.len(), all[0].len()), (1, 5));
    let reported = all[0].first_changes(2);
    let first: Vec<_> =
        reported.iter().map(|change| (change.kind, change.tool.as_str(), change.level.as_str())).collect();
    let expected = [
        (ToolChangeKind::LevelRaised, "kept", "Medium"),
        (ToolChangeKind::ToolAdded, "d", "Critical"),
        (ToolChangeKind::MoreChanges, "", "Critical"),
    ];
    assert_eq!(first, expected);
    let counts: Vec<_> = reported[2].counts.iter().map(|(kind, count)| (*kind, *count)).collect();
    assert_eq!(counts, [(ToolChangeKind::ToolAdded, 1), (ToolChangeKind::ToolRemoved, 2)]);
    assert_eq!(all[0].first_changes(5).len(), 5);
    assert_eq!(all[0].first_changes(0).len(), 1);
}

#[test]
fn the_built_in_index_has_the_pharo_server_with_the_listed_tools() {
    let index = PackageIndex::open(PackageIndex::built_in()).unwrap();
    // A small index for experiments must not be shipped.
    assert!(index.servers().len() > 15_000 && index.metadata().tools > 200_000, "{:?}", index.metadata());
    let pharo = index.find(Some(PackageRegistry::Pypi), "pharo-smalltalk-interop-mcp-server").unwrap();
    let list: serde_json::Value = serde_json::from_str(include_str!("pharo.json")).unwrap();
    let mut listed: Vec<&str> =
        list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    listed.sort_unstable();
    assert_eq!(pharo.tools().map(|tool| tool.name()).collect::<Vec<_>>(), listed);
    let count = |wanted: Category| pharo.tools().filter(|tool| tool.category() == wanted).count();
    assert_eq!([count(Category::Read), count(Category::Write), count(Category::Execute)], [15, 3, 4]);
}

#[test]
fn the_date_of_the_built_in_index_is_known_without_opening_it() {
    let opened = PackageIndex::open(PackageIndex::built_in()).expect("an index");
    assert_eq!(PackageIndex::built_in_date(), Some(opened.metadata().date.clone()));
}
