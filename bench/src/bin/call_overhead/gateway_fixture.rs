//! Configuration of a gateway under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gatelodge_store::{CallId, CallRecord, Clock, Durability, GrantToken, Ledger, RecordKind, SqliteLedger};
use jiff::Timestamp;

/// Sizes of a configuration.
#[derive(Clone, Copy)]
pub struct GatewayFixture {
    pub grants: usize,
    pub rules: usize,
    /// Limits that each call is charged to.
    pub limits: usize,
    pub servers: usize,
    pub is_power_durable: bool,
    /// Rows in the ledger before the first call.
    pub rows: u64,
    /// Open, idle sessions.
    pub sessions: usize,
}

/// All features on: a token, two conditions among 100 rules, one limit, the intent recorded.
pub const DEFAULT_FIXTURE: GatewayFixture =
    GatewayFixture { grants: 1, rules: 100, limits: 1, servers: 1, is_power_durable: false, rows: 0, sessions: 0 };

/// A configuration on disk.
pub struct WrittenConfig {
    pub file: PathBuf,
    pub token: String,
}

impl GatewayFixture {
    /// Writes the configuration of a gateway on two ports in front of an upstream.
    pub fn write(&self, folder: &Path, ports: (u16, u16), upstream: &str) -> WrittenConfig {
        fs::write(folder.join("policy.json"), self.policy()).expect("a file");
        let token = GrantToken::random().expect("randomness");
        fs::write(folder.join("token"), token.reveal()).expect("a file");
        let durability = if self.is_power_durable { "power" } else { "process" };
        // More than the defaults, plus the sessions that clients open.
        let sessions = (self.sessions + 500).max(2_500);
        let mut text = format!(
            "[gateway]\nlisten = \"127.0.0.1:{}\"\nmax_sessions = {sessions}\nmax_sessions_per_grant = {sessions}\n[admin]\nlisten = \"127.0.0.1:{}\"\n\
             [store]\ndata = \"data\"\ndurability = \"{durability}\"\n[[policies]]\nname = \"p\"\nfile = \"policy.json\"\n",
            ports.0, ports.1
        );
        let names: Vec<String> = (0..self.servers).map(|at| format!("u{at}")).collect();
        for name in &names {
            text.push_str(&format!("[[servers]]\nname = \"{name}\"\nurl = \"{upstream}\"\n"));
        }
        let servers = names.iter().map(|name| format!("{name} = \"p\""));
        let attachments = match self.servers {
            1 => "server = \"u0\"\npolicy = \"p\"\n".to_owned(),
            _ => format!("servers = {{ {} }}\n", servers.collect::<Vec<_>>().join(", ")),
        };
        text.push_str(&format!("[[grants]]\nlabel = \"g\"\ntoken_file = \"token\"\n{attachments}"));
        for at in 1..self.grants {
            let hash = GrantToken::random().expect("randomness").hash();
            text.push_str(&format!("[[grants]]\nlabel = \"g{at}\"\ntoken_hash = \"{hash}\"\n{attachments}"));
        }
        let file = folder.join("gatelodge.toml");
        fs::write(&file, text).expect("a file");
        self.prefill_ledger(&folder.join("data"));
        WrittenConfig { file, token: token.reveal().to_owned() }
    }

    pub fn policy(&self) -> String {
        let limits: Vec<String> =
            (0..self.limits).map(|at| format!(r#"{{"counter":"c{at}","window":"day","max":1000000000}}"#)).collect();
        let limits = limits.join(",");
        let rule = |at| {
            format!(
                r#""tool_{at}":{{"require":[{{"path":"args.currency","op":"in","value":["eur","usd"]}}],"deny_if":[{{"path":"args.amount","op":"gt","value":50000}}],"limits":[{limits}]}}"#
            )
        };
        // The rule of the called tool is always included.
        let rules: Vec<String> = (0..self.rules.max(51)).skip(51_usize.saturating_sub(self.rules)).map(rule).collect();
        format!(r#"{{"version":"1","default":"deny","tools":{{{}}}}}"#, rules.join(","))
    }

    /// Writes rows of earlier calls.
    fn prefill_ledger(&self, data: &Path) {
        if self.rows == 0 {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let ledger = SqliteLedger::open(data, Durability::Process, Arc::new(FixedClock)).expect("a ledger");
        runtime.block_on(async {
            for at in 0..self.rows {
                let mut record = CallRecord::new(
                    RecordKind::Outcome,
                    CallId::new(FixedClock.now(), call_id_bytes(at)),
                    FixedClock.now(),
                );
                record.target = Some("tool_50".into());
                ledger.write(&record).await.expect("a row");
            }
            ledger.flush().await.expect("written");
        });
    }
}

/// A clock that does not advance.
#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

fn call_id_bytes(at: u64) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&at.to_be_bytes());
    bytes
}
