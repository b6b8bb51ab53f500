//! Tasks: when the work of a call continues in the background, the call returns a task instead of its result.

use gatelodge_json::{JsonLimits, RawMember, read, split_object};

use crate::request_id::SCALAR_LIMITS;
use crate::revision::ProtocolGeneration;

/// Name of the tasks extension in the stateless protocol.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The capability that a client must declare to request or receive tasks, as JSON.
pub const TASKS_CAPABILITY_JSON: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// A task created by a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTask {
    /// The server's id for the task.
    pub id: String,
    /// How long the server keeps the task, in milliseconds; `None` if unlimited or not specified.
    pub ttl: Option<u64>,
}

/// Returns the task in the result of a call; `None` if the result is final.
///
/// ```
/// use gatelodge_mcp::{ProtocolGeneration, find_created_task};
///
/// let result = r#"{"task":{"taskId":"t1","ttl":60000}}"#;
/// let task = find_created_task(result, ProtocolGeneration::Stateful).expect("a task");
/// assert_eq!((task.id.as_str(), task.ttl), ("t1", Some(60_000)));
/// assert_eq!(find_created_task(r#"{"content":[]}"#, ProtocolGeneration::Stateful), None);
/// ```
pub fn find_created_task(result: &str, generation: ProtocolGeneration) -> Option<CreatedTask> {
    let parts = split_members(result)?;
    let (parts, ttl) = match generation {
        ProtocolGeneration::Stateful => (split_members(find_member(&parts, "task")?)?, "ttl"),
        ProtocolGeneration::Stateless if unescape_string(find_member(&parts, "resultType")?)? == "task" => {
            (parts, "ttlMs")
        }
        ProtocolGeneration::Stateless => return None,
    };
    let id = unescape_string(find_member(&parts, "taskId")?)?;
    Some(CreatedTask { id, ttl: find_member(&parts, ttl).and_then(|ttl| ttl.parse().ok()) })
}

/// Returns whether the result of `initialize` or `server/discover` advertises tasks.
pub fn has_task_capability(result: &str, generation: ProtocolGeneration) -> bool {
    let Ok(document) = read(result.as_bytes(), &JsonLimits::REPLY) else { return false };
    let capabilities = document.root().get("capabilities");
    let tasks = capabilities.and_then(|capabilities| match generation {
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
    fn tasks_are_recognized_in_both_generations() {
        let stateful = r#"{"task":{"taskId":"a\u0062","status":"working","ttl":60000},"_meta":{}}"#;
        let stateless = r#"{"resultType":"task","taskId":"ab","status":"working","ttlMs":null}"#;
        assert_eq!(find_created_task(stateful, ProtocolGeneration::Stateful), task("ab", Some(60_000)));
        assert_eq!(find_created_task(stateless, ProtocolGeneration::Stateless), task("ab", None));
        assert_eq!(find_created_task(stateful, ProtocolGeneration::Stateless), None);
        assert_eq!(find_created_task(stateless, ProtocolGeneration::Stateful), None);
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
    fn task_support_is_read_from_the_capabilities() {
        let stateful = r#"{"capabilities":{"tasks":{"list":{}}}}"#;
        let stateless = r#"{"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;
        assert!(
            has_task_capability(stateful, ProtocolGeneration::Stateful)
                && !has_task_capability(stateful, ProtocolGeneration::Stateless)
        );
        assert!(
            has_task_capability(stateless, ProtocolGeneration::Stateless)
                && !has_task_capability(stateless, ProtocolGeneration::Stateful)
        );
        assert!(
            !has_task_capability("{}", ProtocolGeneration::Stateful)
                && !has_task_capability("", ProtocolGeneration::Stateless)
        );
    }
}
