//! Broken, huge and malicious archives: entries that exceed a bound are skipped and counted, the rest is read.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Cursor, Read, Write};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use gatelodge_catalogue::{ArchiveFormat, ArchiveLimits, ArchiveSkipReason, ExtractDecision, UnpackedArchive, unpack};

fn is_python(path: &str) -> ExtractDecision {
    if path.ends_with(".py") { ExtractDecision::Extract } else { ExtractDecision::Skip }
}

fn zipped(zip: Vec<u8>) -> UnpackedArchive {
    unpack(Cursor::new(zip), ArchiveFormat::Zip, &ArchiveLimits::default(), is_python)
}

fn tarred(entries: &[Entry]) -> UnpackedArchive {
    unpack(Cursor::new(gzipped(&tar(entries))), ArchiveFormat::TarGz, &ArchiveLimits::default(), is_python)
}

/// Entry of an archive: path, kind in a tarball, content.
struct Entry {
    path: Vec<u8>,
    kind: u8,
    content: Vec<u8>,
}

fn entry(path: &str, content: &[u8]) -> Entry {
    Entry { path: path.as_bytes().to_vec(), kind: b'0', content: content.to_vec() }
}

fn head(path: &[u8], kind: u8, size: u64) -> Vec<u8> {
    let mut head = vec![0; 512];
    let path = &path[..path.len().min(100)];
    head[..path.len()].copy_from_slice(path);
    head[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    head[156] = kind;
    head[257..262].copy_from_slice(b"ustar");
    head
}

fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        out.extend(head(&entry.path, entry.kind, entry.content.len() as u64));
        out.extend(&entry.content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.extend([0; 1024]);
    out
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).expect("written");
    out.finish().expect("packed")
}

/// Builds a zip from path, permissions and compressed content of each entry.
fn zip(entries: &[(&[u8], u32, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (path, rights, packed) in entries {
        let (offset, name, size) = (out.len() as u32, path.len() as u16, packed.len() as u32);
        out.extend(b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0");
        out.extend([size.to_le_bytes(), size.to_le_bytes()].concat());
        out.extend([name.to_le_bytes(), [0, 0]].concat());
        out.extend(*path);
        out.extend(packed);
        directory.extend(b"PK\x01\x02\x14\x03\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0");
        directory.extend([size.to_le_bytes(), size.to_le_bytes()].concat());
        directory.extend([name.to_le_bytes(), [0; 2], [0; 2], [0; 2], [0; 2]].concat());
        directory.extend((rights << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(*path);
    }
    let (start, size, count) = (out.len() as u32, directory.len() as u32, entries.len() as u16);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    out.extend([size.to_le_bytes(), start.to_le_bytes()].concat());
    out.extend([0, 0]);
    out
}

fn deflated(content: impl Read) -> Vec<u8> {
    let mut content = content;
    let mut out = DeflateEncoder::new(Vec::new(), Compression::fast());
    std::io::copy(&mut content, &mut out).expect("written");
    out.finish().expect("packed")
}

fn plain(text: &'static str) -> Vec<u8> {
    deflated(text.as_bytes())
}

#[test]
fn valid_archives_are_read() {
    let zip = zip(&[(b"a/b.py", 0o644, plain("x = 1\n")), (b"a/c.txt", 0o644, plain("no")), (b"a/", 0o755, plain(""))]);
    let read = zipped(zip);
    assert_eq!(read.files.into_iter().collect::<Vec<_>>(), [("a/b.py".to_owned(), "x = 1\n".to_owned())]);
    assert!(read.skipped.is_empty());
    let long = format!("{}/b.py", "f".repeat(150));
    let named = Entry { path: b"././@LongLink".to_vec(), kind: b'L', content: format!("{long}\0").into_bytes() };
    let pax = Entry { path: b"pax".to_vec(), kind: b'x', content: b"18 path=p/\xc3\xa4/x.py\n".to_vec() };
    let read = tarred(&[named, entry("short.py", b"y"), pax, entry("z.py", b"\xef\xbb\xbfz"), entry("last.py", b"l")]);
    let paths: Vec<_> = read.files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert_eq!(paths, [(long.as_str(), "y"), ("last.py", "l"), ("p/ä/x.py", "z")]);
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
}

#[test]
fn a_decompression_bomb_is_counted_and_the_rest_is_read() {
    let bomb = deflated(std::io::repeat(b'a').take(1 << 30));
    assert!(bomb.len() < 8 << 20);
    let read = zipped(zip(&[(b"bomb.py", 0o644, bomb), (b"good.py", 0o644, plain("g"))]));
    assert_eq!(read.files.keys().collect::<Vec<_>>(), ["good.py"]);
    assert_eq!(read.skipped[&ArchiveSkipReason::LargeFile], 1);
}

#[test]
fn decompressed_bytes_of_a_zip_are_bounded_even_if_none_are_kept() {
    let bounds = ArchiveLimits { max_file_bytes: 1_000, max_stream_bytes: 10_000, ..ArchiveLimits::default() };
    let large = || deflated(std::io::repeat(b'a').take(5_000));
    let names: Vec<String> = (0..40).map(|at| format!("{at}.py")).collect();
    let entries: Vec<_> = names.iter().map(|name| (name.as_bytes(), 0o644, large())).collect();
    let read = unpack(Cursor::new(zip(&entries)), ArchiveFormat::Zip, &bounds, is_python);
    assert_eq!((read.skipped[&ArchiveSkipReason::LargeFile], read.skipped[&ArchiveSkipReason::LargeStream]), (9, 1));
}

#[test]
fn a_file_of_a_gigabyte_ends_the_archive() {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(&tar(&[entry("first.py", b"f")])[..1024]).expect("written");
    out.write_all(&head(b"data.bin", b'0', 1 << 30)).expect("written");
    std::io::copy(&mut std::io::repeat(0).take(1 << 30), &mut out).expect("written");
    out.write_all(&tar(&[entry("last.py", b"l")])).expect("written");
    let read =
        unpack(Cursor::new(out.finish().expect("packed")), ArchiveFormat::TarGz, &ArchiveLimits::default(), is_python);
    assert_eq!(read.files.keys().collect::<Vec<_>>(), ["first.py"]);
    assert_eq!(read.skipped[&ArchiveSkipReason::LargeStream], 1);
}

#[test]
fn total_size_and_number_of_files_are_bounded() {
    let bounds =
        ArchiveLimits { max_entries: 10, max_file_bytes: 100, max_total_bytes: 250, ..ArchiveLimits::default() };
    let entries: Vec<Entry> = (0..9).map(|at| entry(&format!("{at}.py"), &[b'a'; 90])).collect();
    let read = unpack(Cursor::new(gzipped(&tar(&entries))), ArchiveFormat::TarGz, &bounds, is_python);
    assert_eq!((read.files.len(), read.skipped[&ArchiveSkipReason::LargeTotal]), (2, 1));
    let entries: Vec<Entry> = (0..20).map(|at| entry(&format!("{at}.py"), b"a")).collect();
    let read = unpack(Cursor::new(gzipped(&tar(&entries))), ArchiveFormat::TarGz, &bounds, is_python);
    assert_eq!((read.files.len(), read.skipped[&ArchiveSkipReason::ManyEntries]), (10, 1));
    let names: Vec<String> = (0..20).map(|at| format!("{at}.py")).collect();
    let entries: Vec<_> = names.iter().map(|name| (name.as_bytes(), 0o644, plain("a"))).collect();
    let read = unpack(Cursor::new(zip(&entries)), ArchiveFormat::Zip, &bounds, is_python);
    assert_eq!((read.files.len(), read.skipped[&ArchiveSkipReason::ManyEntries]), (10, 1));
}

#[test]
fn paths_out_of_the_archive_are_counted() {
    let paths: [&[u8]; 6] = [b"../a.py", b"/a.py", b"a/../../b.py", b"a\\b.py", b"C:/a.py", b"\xff\xfe.py"];
    let zip = zip(&paths.map(|path| (path, 0o644, plain("x"))));
    let read = zipped(zip);
    assert_eq!((read.files.len(), read.skipped[&ArchiveSkipReason::BadPath]), (0, 6));
    let entries: Vec<Entry> =
        paths.iter().map(|path| Entry { path: path.to_vec(), kind: b'0', content: b"x".to_vec() }).collect();
    let read = tarred(&entries);
    assert_eq!((read.files.len(), read.skipped[&ArchiveSkipReason::BadPath]), (0, 6));
    let endless = Entry { path: b"long".to_vec(), kind: b'L', content: vec![b'a'; 1 << 20] };
    let read = tarred(&[endless, entry("a.py", b"x")]);
    assert_eq!((read.files.len(), read.skipped[&ArchiveSkipReason::BadPath]), (0, 1));
}

#[test]
fn deep_paths_are_counted() {
    let deep = format!("{}a.py", "d/".repeat(500));
    let named = Entry { path: b"long".to_vec(), kind: b'L', content: deep.clone().into_bytes() };
    let read = tarred(&[named, entry("x.py", b"x"), entry("y.py", b"y")]);
    assert_eq!((read.files.len(), read.skipped[&ArchiveSkipReason::DeepPath]), (1, 1));
    assert_eq!(zipped(zip(&[(deep.as_bytes(), 0o644, plain("x"))])).skipped[&ArchiveSkipReason::DeepPath], 1);
}

#[test]
fn links_are_counted_and_not_followed() {
    let link = Entry { path: b"a.py".to_vec(), kind: b'2', content: Vec::new() };
    let hard = Entry { path: b"b.py".to_vec(), kind: b'1', content: Vec::new() };
    let read = tarred(&[link, hard, entry("c.py", b"c")]);
    assert_eq!((read.files.len(), read.skipped[&ArchiveSkipReason::Link]), (1, 2));
    let read = zipped(zip(&[(b"a.py", 0o120_777, plain("/etc/passwd")), (b"c.py", 0o100_644, plain("c"))]));
    assert_eq!((read.files.len(), read.skipped[&ArchiveSkipReason::Link]), (1, 1));
}

#[test]
fn a_link_that_replaces_no_source_file_is_ignored() {
    let link = Entry { path: b"LICENSE".to_vec(), kind: b'2', content: Vec::new() };
    let read = tarred(&[link, entry("c.py", b"c")]);
    assert_eq!((read.files.len(), read.skipped.len()), (1, 0), "{:?}", read.skipped);
    let read = zipped(zip(&[(b"docs", 0o120_777, plain("../docs")), (b"c.py", 0o100_644, plain("c"))]));
    assert_eq!((read.files.len(), read.skipped.len()), (1, 0), "{:?}", read.skipped);
    // A long-name entry in front of the link belongs to the link.
    let named = || Entry { path: b"long".to_vec(), kind: b'L', content: b"a.py\0".to_vec() };
    let target = || Entry { path: b"long".to_vec(), kind: b'K', content: b"b.py\0".to_vec() };
    let link = || Entry { path: b"a".to_vec(), kind: b'2', content: Vec::new() };
    let read = tarred(&[named(), target(), link(), entry("c.py", b"c")]);
    assert_eq!(
        (read.files.keys().map(String::as_str).collect::<Vec<_>>(), read.skipped[&ArchiveSkipReason::Link]),
        (vec!["c.py"], 1)
    );
}

#[test]
fn python_is_read_in_its_declared_encoding() {
    let of = |text: &[u8]| tarred(&[entry("a.py", text)]).files.remove("a.py");
    assert_eq!(
        of(b"#!/bin/python\n# -*- coding: Latin-1 -*-\nx = '\xe4'\n").as_deref().map(|text| text.contains('ä')),
        Some(true)
    );
    assert_eq!(of(b"x = '\xe4'\n"), None);
    for fine in [
        "# coding: utf-8",
        "# vim: set fileencoding=UTF_8 :",
        "# coding=us-ascii",
        "\n\n# coding: utf-7",
        "# coding:",
        "x = 'coding: utf-7'",
    ] {
        assert!(of(fine.as_bytes()).is_some(), "{fine}");
    }
    for other in [
        "# coding: utf-7",
        "x\n\t# encoding=gbk",
        "# coding: ! coding: utf-7",
        "# a\r# b\r# coding: rot13",
        "# coding: iso-8859-15",
    ] {
        assert!(of(other.as_bytes()).is_none(), "{other}");
    }
}

#[test]
fn javascript_is_read_whatever_its_bytes_are() {
    let files = [entry("a.js", b"f('\xe4', '\0', \"b\")")];
    let read = unpack(Cursor::new(gzipped(&tar(&files))), ArchiveFormat::TarGz, &ArchiveLimits::default(), |_| {
        ExtractDecision::Extract
    });
    assert_eq!(read.files["a.js"], "f('\u{fffd}', '\u{fffd}', \"b\")");
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
}

#[test]
fn zip_with_an_ambiguous_directory_is_broken() {
    let good = zip(&[(b"a.py", 0o644, plain("a")), (b"b.py", 0o644, plain("b"))]);
    let second = good.windows(4).rposition(|word| word == b"PK\x01\x02").expect("an entry");
    let mut bent = good.clone();
    bent[second] = b'Q';
    assert_eq!(zipped(bent).skipped.get(&ArchiveSkipReason::Broken), Some(&1));
    // At the start, or between the directory and its end record.
    let end = good.len() - 22;
    for place in [0, end] {
        let moved = [&good[..place], b"more", &good[place..]].concat();
        assert_eq!(zipped(moved).skipped.get(&ArchiveSkipReason::Broken), Some(&1), "{place}");
    }
}

#[test]
fn an_ambiguous_tarball_is_broken() {
    let pax = |kind: u8, content: &[u8]| Entry { path: b"pax".to_vec(), kind, content: content.to_vec() };
    for (kind, content) in [
        (b'x', b"10 size=2\n".as_slice()),
        (b'x', b"10 size=x\n"),
        (b'g', b"10 size=1\n"),
        (b'x', b"22 GNU.sparse.major=1\n"),
        (b'x', b"99 path=b.py\n"),
        (b'x', b"nonsense"),
        (b'g', b"13 path=b.py\n"),
        (b'S', b""),
        (b'Q', b""),
    ] {
        let read = tarred(&[pax(kind, content), entry("a.py", b"a")]);
        assert_eq!(read.skipped.get(&ArchiveSkipReason::Broken), Some(&1), "{}", String::from_utf8_lossy(content));
    }
    // The same size given twice is not ambiguous.
    let read = tarred(&[pax(b'x', b"13 path=b.py\n10 size=1\n"), entry("a.py", b"a"), entry("c.py", b"cc")]);
    assert_eq!((read.files.len(), read.skipped.len()), (2, 0), "{:?}", read.skipped);
    let folder = Entry { path: b"a/".to_vec(), kind: b'5', content: Vec::new() };
    let read = tarred(&[
        pax(b'g', b"13 comment=1\n"),
        folder,
        pax(b'x', b"13 path=b.py\n13 path=c.py\n"),
        entry("a.py", b"a"),
    ]);
    assert_eq!(
        (read.files.keys().map(String::as_str).collect::<Vec<_>>(), read.skipped.len()),
        (vec!["c.py"], 0),
        "{:?}",
        read.skipped
    );
}

#[test]
fn a_file_that_is_not_text_is_counted() {
    let read = tarred(&[entry("a.py", b"\xff\xfea"), entry("b.py", b"a\0b"), entry("c.py", "ä".as_bytes())]);
    assert_eq!((read.files.len(), read.skipped[&ArchiveSkipReason::NotText]), (1, 2));
}

#[test]
fn nested_archives_are_not_opened() {
    let inner = zip(&[(b"evil.py", 0o644, plain("x"))]);
    let read = tarred(&[entry("inner.zip", &inner), entry("inner.whl", &inner), entry("a.py", b"a")]);
    assert_eq!(read.files.keys().collect::<Vec<_>>(), ["a.py"]);
}

#[test]
fn damage_in_an_archive_is_counted() {
    let good = zip(&[(b"a.py", 0o644, plain("text of a file")), (b"b.py", 0o644, plain("text of another"))]);
    for at in 0..good.len() {
        assert!(!zipped(good[..at].to_vec()).skipped.is_empty(), "cut at {at}");
        let mut bent = good.clone();
        bent[at] ^= 0xff;
        let bent = zipped(bent);
        assert!(!bent.skipped.is_empty() || bent.files.len() == 2, "bent at {at}");
    }
    let tar = gzipped(&tar(&[entry("a.py", b"text of a file"), entry("b.py", b"text of another")]));
    for at in 0..tar.len() {
        let cut = unpack(Cursor::new(tar[..at].to_vec()), ArchiveFormat::TarGz, &ArchiveLimits::default(), is_python);
        assert!(!cut.skipped.is_empty() || cut.files.len() == 2, "cut at {at}");
    }
    assert_eq!(zipped(b"not a zip".to_vec()).skipped[&ArchiveSkipReason::Broken], 1);
    assert_eq!(zipped(vec![b'P'; 100_000]).skipped[&ArchiveSkipReason::Broken], 1);
}

#[test]
fn decompressed_bytes_of_a_zip_are_bounded_even_if_each_entry_is_broken() {
    let bounds = ArchiveLimits { max_stream_bytes: 10 << 20, ..ArchiveLimits::default() };
    let mut out = DeflateEncoder::new(Vec::new(), Compression::fast());
    out.write_all(&vec![b'a'; 3 << 20]).expect("written");
    out.flush().expect("written");
    // A last block of an invalid type.
    let broken = || [out.get_ref().as_slice(), &[0xff; 8]].concat();
    let names: Vec<String> = (0..40).map(|at| format!("{at}.py")).collect();
    let entries: Vec<_> = names.iter().map(|name| (name.as_bytes(), 0o644, broken())).collect();
    let read = unpack(Cursor::new(zip(&entries)), ArchiveFormat::Zip, &bounds, is_python);
    assert_eq!(read.skipped.get(&ArchiveSkipReason::LargeStream), Some(&1), "{:?}", read.skipped);
    assert!((1..10).contains(&read.skipped[&ArchiveSkipReason::Broken]), "{:?}", read.skipped);
}

#[test]
fn a_tarball_continues_after_one_empty_block_and_in_a_second_stream() {
    let first = &tar(&[entry("first.py", b"f")])[..1024];
    let second = tar(&[entry("second.py", b"s")]);
    let one_empty = [first, &[0; 512], &second, &tar(&[entry("behind.py", b"b")])].concat();
    let read = unpack(Cursor::new(gzipped(&one_empty)), ArchiveFormat::TarGz, &ArchiveLimits::default(), is_python);
    assert_eq!(read.files.keys().collect::<Vec<_>>(), ["first.py", "second.py"]);
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
    let parts = [gzipped(first), gzipped(&second)].concat();
    let read = unpack(Cursor::new(parts), ArchiveFormat::TarGz, &ArchiveLimits::default(), is_python);
    assert_eq!(read.files.keys().collect::<Vec<_>>(), ["first.py", "second.py"]);
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
}

/// Returns `count` empty deflate blocks, the last of which ends the stream.
fn empty_blocks(count: usize) -> Vec<u8> {
    [[0, 0, 0, 0xff, 0xff].repeat(count), vec![1, 0, 0, 0xff, 0xff]].concat()
}

#[test]
fn too_many_empty_blocks_end_an_archive() {
    let few = zip(&[(b"a.py", 0o644, empty_blocks(1_000)), (b"b.py", 0o644, plain("b"))]);
    let read = zipped(few);
    assert_eq!((read.files.len(), read.skipped.len()), (2, 0), "{:?}", read.skipped);
    // Each is small; together they exceed the bound.
    let names: Vec<String> = (0..10).map(|at| format!("{at}.py")).collect();
    let mut entries: Vec<_> = names.iter().map(|name| (name.as_bytes(), 0o644, empty_blocks(50_000))).collect();
    entries.insert(0, (b"first.py", 0o644, plain("f")));
    let read = zipped(zip(&entries));
    assert_eq!(read.files["first.py"], "f");
    assert!(read.skipped[&ArchiveSkipReason::Broken] >= 5, "{:?}", read.skipped);
    // As a separate stream in front of the stream with the files.
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let tar = gzipped(&tar(&[entry("a.py", b"a")]));
    let before = |count| [head.as_slice(), &empty_blocks(count), &[0; 8], &tar].concat();
    let read = |bytes| unpack(Cursor::new(bytes), ArchiveFormat::TarGz, &ArchiveLimits::default(), is_python);
    assert_eq!(read(before(1_000)).files.len(), 1);
    let read = read(before(600_000));
    assert_eq!((read.files.len(), read.skipped[&ArchiveSkipReason::Broken]), (0, 1));
}

#[test]
fn an_incompressible_archive_is_read() {
    let noise: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let bytes = tar(&[entry("noise.bin", &noise), entry("a.py", b"a")]);
    let mut out = GzEncoder::new(Vec::new(), Compression::none());
    out.write_all(&bytes).expect("written");
    let read =
        unpack(Cursor::new(out.finish().expect("packed")), ArchiveFormat::TarGz, &ArchiveLimits::default(), is_python);
    assert_eq!((read.files.len(), read.skipped.len()), (1, 0), "{:?}", read.skipped);
}

#[test]
fn a_file_without_extension_is_read_if_its_first_line_names_an_interpreter() {
    let wants = |path: &str| if path.contains('.') { ExtractDecision::Skip } else { ExtractDecision::ExtractIfScript };
    let entries = [
        entry("bin/start", b"#!/usr/bin/env node\nstart();\n"),
        entry("bin/other", b"#!/usr/local/bin/bun run\n"),
        entry("bin/shell", b"#!/bin/sh\nexec node x.js\n"),
        entry("LICENSE", b"node is free"),
        entry("bin/native", &[0x7f; 5 << 20]),
    ];
    let read = unpack(Cursor::new(gzipped(&tar(&entries))), ArchiveFormat::TarGz, &ArchiveLimits::default(), wants);
    assert_eq!(read.files.keys().collect::<Vec<_>>(), ["bin/other", "bin/start"]);
    assert_eq!(read.files["bin/start"], "#!/usr/bin/env node\nstart();\n");
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
}
