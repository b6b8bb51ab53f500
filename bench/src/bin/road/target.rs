//! The processes that are measured.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gatelodge_store::Token;

/// What calls are sent to. Its processes end with it.
pub struct Target {
    pub name: &'static str,
    pub port: u16,
    pub path: &'static str,
    pub token: Option<String>,
    child: Option<Child>,
    /// Whose CPU counts; none for what runs for all.
    measured: Option<u32>,
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            for pid in family(child.id()) {
                let _ = Command::new("kill").arg(pid.to_string()).status();
            }
            let _ = child.wait();
        }
    }
}

impl Target {
    /// What the process and its children have used.
    pub fn cpu_microseconds(&self) -> u64 {
        let Some(pid) = self.measured else { return 0 };
        family(pid).into_iter().map(cpu_ticks).sum::<u64>() * 10_000
    }

    pub fn memory_kib(&self) -> u64 {
        let Some(pid) = self.measured else { return 0 };
        let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
        let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
    }
}

fn cpu_ticks(pid: u32) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0 };
    let behind_name = text.rsplit(')').next().expect("a name");
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    fields[11].parse::<u64>().expect("user time") + fields[12].parse::<u64>().expect("system time")
}

fn family(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    children.chain([pid]).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

fn wait_for(port: u16) {
    for _ in 0..200 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing listens on port {port}");
}

fn start(command: &mut Command, port: u16) -> Child {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    wait_for(port);
    child
}

pub fn upstream() -> Target {
    let port = free_port();
    let program = std::env::current_exe().expect("this program");
    let child = start(Command::new(program).args(["--upstream", &port.to_string()]), port);
    Target { name: "upstream", port, path: "/mcp", token: None, child: Some(child), measured: None }
}

pub fn direct(upstream: &Target) -> Target {
    Target { name: "direct", port: upstream.port, path: "/mcp", token: None, child: None, measured: None }
}

pub fn nginx(upstream: &Target, folder: &Path) -> Target {
    let port = free_port();
    let folder = folder.display();
    let text = format!(
        "daemon off; worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\n\
         events {{}}\nhttp {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;\n\
         fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 1000000;\n\
         upstream u {{ server 127.0.0.1:{}; keepalive 64; keepalive_requests 1000000; }}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://u; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; }} }} }}\n",
        upstream.port
    );
    let file = format!("{folder}/nginx.conf");
    fs::write(&file, text).expect("a file");
    let child = start(Command::new("nginx").args(["-c", &file]), port);
    let measured = Some(child.id());
    Target { name: "nginx", port, path: "/mcp", token: None, child: Some(child), measured }
}

/// Everything on: a grant's token, a policy of 100 rules with two conditions judged, one limit, the intent written.
pub fn gatelodge(upstream: &Target, folder: &Path) -> Target {
    let (port, admin) = (free_port(), free_port());
    let token = Token::random().expect("randomness");
    let rules: Vec<String> = (0..100)
        .map(|at| {
            format!(
                r#""tool_{at}":{{"require":[{{"path":"args.currency","op":"in","value":["eur","usd"]}}],"deny_if":[{{"path":"args.amount","op":"gt","value":50000}}],"limits":[{{"counter":"c{at}","window":"day","max":1000000000}}]}}"#
            )
        })
        .collect();
    let policy = format!(r#"{{"version":"1","default":"deny","tools":{{{}}}}}"#, rules.join(","));
    fs::write(folder.join("policy.json"), policy).expect("a file");
    fs::write(folder.join("token"), token.reveal()).expect("a file");
    let text = format!(
        "[gateway]\nlisten = \"127.0.0.1:{port}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[store]\ndata = \"data\"\n\
         [[servers]]\nname = \"u\"\nurl = \"http://127.0.0.1:{}/mcp\"\n[[policies]]\nname = \"p\"\nfile = \"policy.json\"\n\
         [[grants]]\nlabel = \"g\"\ntoken_file = \"token\"\nserver = \"u\"\npolicy = \"p\"\n",
        upstream.port
    );
    let file = folder.join("gatelodge.toml");
    fs::write(&file, text).expect("a file");
    let program = std::env::current_exe().expect("this program").with_file_name("gatelodge");
    assert!(program.exists(), "build it first: cargo build --release -p gatelodge");
    let child = start(Command::new(program).args(["serve", "--config"]).arg(&file), port);
    let measured = Some(child.id());
    let token = Some(token.reveal().to_owned());
    Target { name: "gatelodge", port, path: "/mcp/u", token, child: Some(child), measured }
}
