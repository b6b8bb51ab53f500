//! Tasks: what a call gives in place of its result when the work goes on without it.

use gatelodge_json::{JsonLimits, RawMember, read, split_object};

use crate::request_id::SCALAR_LIMITS;
use crate::revision::ProtocolGeneration;

/// What the stateless revision calls the extension that tasks are.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// What a client lacks that asks for tasks, or is given one, without having declared the extension, as JSON.
pub const TASKS_CAPABILITY_JSON: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// A task that a call has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTask {
    /// The server's id of it.
    pub id: String,
    /// For how many milliseconds the server keeps it; none if it does not say, or without end.
    pub ttl: Option<u64>,
}

/// The task in the result of a call; none if the result is one itself.
pub fn find_created_task(result: &str, era: ProtocolGeneration) -> Option<CreatedTask> {
    let parts = split_members(result)?;
    let (parts, ttl) = match era {
        ProtocolGeneration::Stateful => (split_members(find_member(&parts, "task")?)?, "ttl"),
        ProtocolGeneration::Stateless if unescape_string(find_member(&parts, "resultType")?)? == "task" => {
            (parts, "ttlMs")
        }
        ProtocolGeneration::Stateless => return None,
    };
    let id = unescape_string(find_member(&parts, "taskId")?)?;
    Some(CreatedTask { id, ttl: find_member(&parts, ttl).and_then(|ttl| ttl.parse().ok()) })
}

/// Whether a server says in its handshake, or where it is discovered, that it has tasks.
pub fn has_task_capability(result: &str, era: ProtocolGeneration) -> bool {
    let Ok(document) = read(result.as_bytes(), &JsonLimits::REPLY) else { return false };
    let capabilities = document.root().get("capabilities");
    let tasks = capabilities.and_then(|capabilities| match era {
        ProtocolGeneration::Stateful => capabilities.get("tasks"),
        ProtocolGeneration::Stateless => capabilities.get("extensions")?.get(TASKS_EXTENSION),
    });
    tasks.is_some()
}

fn split_members(object: &str) -> Option<Vec<RawMember<'_>>> {
    split_object(object.as_bytes(), &JsonLimits::REPLY).ok()
}

fn find_member<'a>(parts: &[RawMember<'a>], key: &str) -> Option<&'a str> {
    parts.iter().find(|part| part.key == key).map(|part| part.value)
}

fn unescape_string(raw: &str) -> Option<String> {
    let document = read(raw.as_bytes(), &SCALAR_LIMITS).ok()?;
    document.root().as_str().map(|text| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, ttl: Option<u64>) -> Option<CreatedTask> {
        Some(CreatedTask { id: id.to_owned(), ttl })
    }

    #[test]
    fn a_task_is_told_from_a_result_in_the_words_of_each_era() {
        let legacy = r#"{"task":{"taskId":"a\u0062","status":"working","ttl":60000},"_meta":{}}"#;
        let modern = r#"{"resultType":"task","taskId":"ab","status":"working","ttlMs":null}"#;
        assert_eq!(find_created_task(legacy, ProtocolGeneration::Stateful), task("ab", Some(60_000)));
        assert_eq!(find_created_task(modern, ProtocolGeneration::Stateless), task("ab", None));
        assert_eq!(find_created_task(legacy, ProtocolGeneration::Stateless), None);
        assert_eq!(find_created_task(modern, ProtocolGeneration::Stateful), None);
        for other in [
            r#"{"content":[{"type":"text","text":"\"taskId\""}]}"#,
            r#"{"resultType":"complete","taskId":"ab"}"#,
            r#"{"resultType":"task","taskId":7}"#,
            r#"{"task":"taskId","structuredContent":{"taskId":"x"}}"#,
            r#"["taskId"]"#,
        ] {
            assert_eq!(
                (
                    find_created_task(other, ProtocolGeneration::Stateful),
                    find_created_task(other, ProtocolGeneration::Stateless)
                ),
                (None, None),
                "{other}"
            );
        }
    }

    #[test]
    fn a_server_says_whether_it_has_tasks() {
        let legacy = r#"{"capabilities":{"tasks":{"list":{}}}}"#;
        let modern = r#"{"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;
        assert!(
            has_task_capability(legacy, ProtocolGeneration::Stateful)
                && !has_task_capability(legacy, ProtocolGeneration::Stateless)
        );
        assert!(
            has_task_capability(modern, ProtocolGeneration::Stateless)
                && !has_task_capability(modern, ProtocolGeneration::Stateful)
        );
        assert!(
            !has_task_capability("{}", ProtocolGeneration::Stateful)
                && !has_task_capability("", ProtocolGeneration::Stateless)
        );
    }
}
