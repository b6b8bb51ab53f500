//! A package registry for tests, served over HTTP.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use sha2::{Digest, Sha256};

#[derive(Default)]
struct RegistryState {
    wheels: HashMap<String, Vec<u8>>,
    removed: Vec<String>,
    changed: Vec<String>,
    pause: Duration,
    refusals: usize,
    request_count: usize,
    is_gone: bool,
    /// Redirects, as paths from the root.
    redirects: HashMap<String, String>,
    /// Replaces the list of packages.
    list: Option<String>,
}

/// A registry that serves as long as the test runs.
pub struct TestRegistry {
    port: u16,
    state: Arc<Mutex<RegistryState>>,
}

impl TestRegistry {
    /// Serves packages: a wheel of version 1.0 for each, or no file if it is empty.
    pub fn serve<'p>(packages: impl IntoIterator<Item = (&'p str, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let wheels = packages.into_iter().map(|(name, wheel)| (name.to_owned(), wheel)).collect();
        let state = Arc::new(Mutex::new(RegistryState { wheels, ..RegistryState::default() }));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || serve_connection(&stream, &shared));
            }
        });
        Self { port, state }
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/simple", self.port)
    }

    /// URL of the same packages as an npm registry: each is a tarball of version 1.0.0.
    pub fn npm_address(&self) -> String {
        format!("http://127.0.0.1:{}/npm", self.port)
    }

    fn set(&self, change: impl FnOnce(&mut RegistryState)) {
        change(&mut self.state.lock().expect("a lock"));
    }

    /// Changes a wheel so that its hash differs from the page.
    pub fn change(&self, name: &str) {
        self.set(|state| state.changed.push(name.to_owned()));
    }

    /// Removes the page of a package.
    pub fn remove_page(&self, name: &str) {
        self.set(|state| state.removed.push(name.to_owned()));
    }

    /// Redirects the page of a package.
    pub fn move_page(&self, name: &str, to: &str) {
        self.set(|state| drop(state.redirects.insert(format!("/simple/{name}/"), to.to_owned())));
    }

    /// Replaces the list of packages.
    pub fn list(&self, text: &str) {
        self.set(|state| state.list = Some(text.to_owned()));
    }

    /// Removes everything.
    pub fn remove_all(&self) {
        self.set(|state| state.is_gone = true);
    }

    /// Delays each response.
    pub fn slow_down(&self, pause: Duration) {
        self.set(|state| state.pause = pause);
    }

    /// Refuses the next `count` requests with status 503.
    pub fn refuse_next(&self, count: usize) {
        self.set(|state| state.refusals = count);
    }

    /// Returns the number of requests so far.
    pub fn request_count(&self) -> usize {
        self.state.lock().expect("a lock").request_count
    }
}

fn serve_connection(stream: &TcpStream, state: &Mutex<RegistryState>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap_or(0) > 2 {
            line.clear();
        }
        let path = first.split(' ').nth(1).unwrap_or_default();
        let (response, pause) = {
            let mut state = state.lock().expect("a lock");
            (respond(path, &mut state), state.pause)
        };
        std::thread::sleep(pause);
        let (status, body) = response;
        let location = state.lock().expect("a lock").redirects.get(path).map(|to| format!("Location: {to}\r\n"));
        let (status, location) = location.map_or((status, String::new()), |to| ("301 Moved Permanently", to));
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nRetry-After: 0\r\n{location}\r\n", body.len());
        let mut out = stream;
        if out.write_all(head.as_bytes()).and_then(|()| out.write_all(&body)).is_err() {
            return;
        }
    }
}

fn respond(path: &str, state: &mut RegistryState) -> (&'static str, Vec<u8>) {
    state.request_count += 1;
    if state.is_gone {
        return ("404 Not Found", Vec::new());
    }
    if state.refusals > 0 {
        state.refusals -= 1;
        return ("503 Service Unavailable", Vec::new());
    }
    if let Some(list) = state.list.clone().filter(|_| path == "/simple/") {
        return ("200 OK", list.into_bytes());
    }
    if path == "/simple/" {
        let links: String = state.wheels.keys().map(|name| format!("<a href=\"{name}/\">{name}</a>\n")).collect();
        return ("200 OK", links.into_bytes());
    }
    if let Some(name) = path.strip_prefix("/files/") {
        let name = name.split('/').next().unwrap_or_default();
        let mut wheel = state.wheels.get(name).cloned().unwrap_or_default();
        if state.changed.iter().any(|changed| changed == name) {
            wheel.push(0);
        }
        return ("200 OK", wheel);
    }
    if let Some(name) = path.strip_prefix("/npm/") {
        let page = format!(
            r#"{{"dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{{"dist":{{"tarball":"/files/{name}/x.tgz"}}}}}}}}"#
        );
        return ("200 OK", page.into_bytes());
    }
    let name = path.trim_start_matches("/simple/").trim_end_matches('/');
    match state.wheels.get(name) {
        Some(_) if state.removed.iter().any(|removed| removed == name) => ("404 Not Found", Vec::new()),
        Some(wheel) if wheel.is_empty() => ("200 OK", b"<html></html>".to_vec()),
        Some(wheel) => {
            let (hash, file) =
                (HEXLOWER.encode(&Sha256::digest(wheel)), format!("{}-1.0-py3-none-any.whl", name.replace('-', "_")));
            let link = format!(
                "<a href=\"../../files/{name}/{file}#sha256={hash}\" data-upload-time=\"2026-01-02T03:04:05Z\">{file}</a>"
            );
            ("200 OK", link.into_bytes())
        }
        None => ("404 Not Found", Vec::new()),
    }
}

/// Builds a wheel.
pub fn wheel(files: &[(&str, &str)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (path, text) in files {
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).expect("written");
        let packed = packed.finish().expect("packed");
        let (offset, name, size) = (out.len() as u32, path.len() as u16, packed.len() as u32);
        let whole = text.len() as u32;
        out.extend(b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0");
        out.extend([size.to_le_bytes(), whole.to_le_bytes()].concat());
        out.extend([name.to_le_bytes(), [0, 0]].concat());
        out.extend(path.as_bytes());
        out.extend(&packed);
        directory.extend(b"PK\x01\x02\x14\x03\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0");
        directory.extend([size.to_le_bytes(), whole.to_le_bytes()].concat());
        directory.extend([name.to_le_bytes(), [0; 2], [0; 2], [0; 2], [0; 2]].concat());
        directory.extend((0o100_644_u32 << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(path.as_bytes());
    }
    let (start, size, count) = (out.len() as u32, directory.len() as u32, files.len() as u16);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    out.extend([size.to_le_bytes(), start.to_le_bytes()].concat());
    out.extend([0, 0]);
    out
}

/// Builds a tarball.
pub fn tarball(files: &[(&str, &str)]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    for (path, text) in files {
        let mut head = [0_u8; 512];
        head[..path.len()].copy_from_slice(path.as_bytes());
        head[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
        head[148..156].fill(b' ');
        head[156] = b'0';
        head[257..262].copy_from_slice(b"ustar");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        out.write_all(&head).expect("written");
        out.write_all(text.as_bytes()).expect("written");
        out.write_all(&vec![0; text.len().next_multiple_of(512) - text.len()]).expect("written");
    }
    out.write_all(&[0; 1024]).expect("written");
    out.finish().expect("packed")
}
