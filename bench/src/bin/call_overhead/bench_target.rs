//! The processes that are measured.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::gateway_fixture::{DEFAULT_FIXTURE, GatewayFixture};

/// Target of calls.
#[derive(Default)]
pub struct BenchTarget {
    pub name: String,
    pub port: u16,
    pub path: String,
    pub token: Option<String>,
    child: Option<ChildGuard>,
    /// Whether only one connection is used.
    pub is_single_connection: bool,
    /// Command that every client runs for itself, if nothing listens.
    pub command: Option<Vec<String>>,
    /// File for the disk baseline.
    pub disk_file: Option<PathBuf>,
}

/// A process that is killed with its children on drop.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        for pid in process_tree(self.0.id()) {
            let _ = Command::new("kill").arg(pid.to_string()).status();
        }
        let _ = self.0.wait();
    }
}

impl BenchTarget {
    /// Returns the CPU time of the process and its children, or 0 for the shared upstream.
    pub fn cpu_microseconds(&self) -> u64 {
        let Some(child) = &self.child else { return 0 };
        process_tree(child.0.id()).into_iter().map(cpu_ticks).sum::<u64>() * 10_000
    }

    /// Returns the resident memory of the process and its children.
    pub fn memory_kib(&self) -> u64 {
        let Some(child) = &self.child else { return 0 };
        process_tree(child.0.id()).into_iter().map(resident_kib).sum()
    }
}

pub fn cpu_ticks(pid: u32) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0 };
    let behind_name = text.rsplit(')').next().expect("a name");
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    fields[11].parse::<u64>().expect("user time") + fields[12].parse::<u64>().expect("system time")
}

pub fn resident_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or_default()
}

fn process_tree(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    children.chain([pid]).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

fn spawn_and_wait(command: &mut Command, port: u16) -> ChildGuard {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    // A configuration of 10,000 grants takes some time to load.
    for _ in 0..600 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return ChildGuard(child);
        }
        assert!(child.try_wait().is_ok_and(|ended| ended.is_none()), "{command:?} ended");
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{command:?} does not listen on port {port}");
}

fn own_command() -> Command {
    Command::new(std::env::current_exe().expect("this program"))
}

/// Starts the upstream of all targets.
pub fn start_upstream() -> BenchTarget {
    let port = free_port();
    let child = spawn_and_wait(own_command().args(["--upstream", &port.to_string()]), port);
    BenchTarget { name: "upstream".to_owned(), port, child: Some(child), ..BenchTarget::default() }
}

/// Returns the upstream itself as a target.
pub fn direct_target(upstream: &BenchTarget, path: &str) -> BenchTarget {
    BenchTarget { name: "direct".to_owned(), port: upstream.port, path: path.to_owned(), ..BenchTarget::default() }
}

/// Starts a minimal proxy built with the same HTTP library as the gateway.
pub fn start_minimal_proxy(upstream: &BenchTarget, path: &str) -> BenchTarget {
    let port = free_port();
    let child = spawn_and_wait(own_command().args(["--floor", &port.to_string(), &upstream.port.to_string()]), port);
    BenchTarget { name: "floor".to_owned(), port, path: path.to_owned(), child: Some(child), ..BenchTarget::default() }
}

/// Starts nginx as a plain proxy, if it is installed.
pub fn start_nginx(upstream: &BenchTarget, path: &str, folder: &Path) -> Option<BenchTarget> {
    Command::new("nginx").arg("-v").stderr(Stdio::null()).status().ok()?;
    let port = free_port();
    let shown = folder.display();
    let text = format!(
        "daemon off; worker_processes 2; pid {shown}/nginx.pid; error_log {shown}/nginx.log;\n\
         events {{}}\nhttp {{ access_log off; client_body_temp_path {shown}/b; proxy_temp_path {shown}/p;\n\
         fastcgi_temp_path {shown}/f; uwsgi_temp_path {shown}/u; scgi_temp_path {shown}/s; keepalive_requests 1000000;\n\
         client_max_body_size 8m;\n\
         upstream u {{ server 127.0.0.1:{}; keepalive 64; keepalive_requests 1000000; }}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://u; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; }} }} }}\n",
        upstream.port
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, text).expect("a file");
    let child = spawn_and_wait(Command::new("nginx").arg("-c").arg(&file), port);
    Some(BenchTarget {
        name: "nginx".to_owned(),
        port,
        path: path.to_owned(),
        child: Some(child),
        ..BenchTarget::default()
    })
}

/// Returns the path of the gateway program, in the folder of this one.
pub fn gateway_program() -> PathBuf {
    std::env::current_exe().expect("this program").with_file_name("gatelodge")
}

/// Starts a gateway with a fixture, in its own folder.
pub fn start_gateway(
    name: &str,
    program: &Path,
    plan: &GatewayFixture,
    upstream: (&BenchTarget, &str),
    folder: &Path,
) -> BenchTarget {
    let (upstream, path) = upstream;
    let folder = folder.join(name.replace(' ', "-"));
    fs::create_dir_all(&folder).expect("a folder");
    let (port, admin) = (free_port(), free_port());
    let written = plan.write(&folder, (port, admin), &format!("http://127.0.0.1:{}{path}", upstream.port));
    assert!(
        program.exists(),
        "{} does not exist; build it first: cargo build --release -p gatelodge",
        program.display()
    );
    let child = spawn_and_wait(Command::new(program).args(["serve", "--config"]).arg(&written.file), port);
    let path = if plan.servers == 1 { "/mcp/u0" } else { "/mcp" };
    let (path, token) = (path.to_owned(), Some(written.token));
    BenchTarget { name: name.to_owned(), port, path, token, child: Some(child), ..BenchTarget::default() }
}

/// Returns the disk that the gateways write to as a target.
pub fn disk_target(folder: &Path) -> BenchTarget {
    BenchTarget { name: "disk".to_owned(), disk_file: Some(folder.join("disk")), ..BenchTarget::default() }
}

fn stdio_upstream_command() -> Vec<String> {
    vec![std::env::current_exe().expect("this program").display().to_string(), "--stdio-upstream".to_owned()]
}

/// Returns the upstream over stdio as a target.
pub fn stdio_target() -> BenchTarget {
    BenchTarget { name: "direct".to_owned(), command: Some(stdio_upstream_command()), ..BenchTarget::default() }
}

/// Like [`stdio_target`], behind `gatelodge wrap`.
pub fn wrap_target(name: &str, folder: &Path) -> BenchTarget {
    let policy = folder.join("policy.json");
    fs::write(&policy, DEFAULT_FIXTURE.policy()).expect("a file");
    let (data, program) = (folder.join("data"), gateway_program());
    let shown = |path: &Path| path.display().to_string();
    let mut command = vec![shown(&program), "wrap".to_owned(), "--policy".to_owned(), shown(&policy)];
    command.extend(["--name".to_owned(), "u0".to_owned(), "--data".to_owned(), shown(&data), "--".to_owned()]);
    command.extend(stdio_upstream_command());
    BenchTarget { name: name.to_owned(), command: Some(command), ..BenchTarget::default() }
}
