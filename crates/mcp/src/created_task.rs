//! Tasks: when the work of a call continues in the background, the call returns a task instead of its result.

use gatelodge_json::{JsonError, JsonLimits, RawMember, read, split_object_str};

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
/// let task = find_created_task(result, ProtocolGeneration::Stateful)?.expect("a task");
/// assert_eq!((task.id.as_str(), task.ttl), ("t1", Some(60_000)));
/// assert_eq!(find_created_task(r#"{"content":[]}"#, ProtocolGeneration::Stateful)?, None);
/// # Ok::<(), gatelodge_json::JsonError>(())
/// ```
///
/// # Errors
/// The result cannot be read reliably, so a client might find a task in it.
pub fn find_created_task(result: &str, generation: ProtocolGeneration) -> Result<Option<CreatedTask>, JsonError> {
    let Some(parts) = split_members(result)? else { return Ok(None) };
    let (parts, ttl) = match generation {
        ProtocolGeneration::Stateful => match find_member(&parts, "task").map(split_members).transpose()?.flatten() {
            Some(parts) => (parts, "ttl"),
            None => return Ok(None),
        },
        ProtocolGeneration::Stateless => match find_string(&parts, "resultType")?.as_deref() {
            Some("task") => (parts, "ttlMs"),
            _ => return Ok(None),
        },
    };
    let ttl = find_member(&parts, ttl).and_then(|ttl| ttl.parse().ok());
    Ok(find_string(&parts, "taskId")?.map(|id| CreatedTask { id, ttl }))
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

/// Splits an object into its members. Returns `None` for other values.
fn split_members(value: &str) -> Result<Option<Vec<RawMember<'_>>>, JsonError> {
    if !value.starts_with('{') {
        return Ok(None);
    }
    split_object_str(value, &JsonLimits { max_bytes: value.len(), ..JsonLimits::REPLY }).map(Some)
}

fn find_member<'a>(parts: &[RawMember<'a>], key: &str) -> Option<&'a str> {
    parts.iter().find(|part| part.key == key).map(|part| part.value)
}

/// Returns the content of a member that is a string. Returns `None` if it is missing or has another type.
fn find_string(parts: &[RawMember<'_>], key: &str) -> Result<Option<String>, JsonError> {
    let Some(raw) = find_member(parts, key).filter(|raw| raw.starts_with('"')) else { return Ok(None) };
    let document = read(raw.as_bytes(), &SCALAR_LIMITS)?;
    Ok(document.root().as_str().map(|text| text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, ttl: Option<u64>) -> Result<Option<CreatedTask>, JsonError> {
        Ok(Some(CreatedTask { id: id.to_owned(), ttl }))
    }

    #[test]
    fn tasks_are_recognized_in_both_generations() {
        let stateful = r#"{"task":{"taskId":"a\u0062","status":"working","ttl":60000},"_meta":{}}"#;
        let stateless = r#"{"resultType":"task","taskId":"ab","status":"working","ttlMs":null}"#;
        assert_eq!(find_created_task(stateful, ProtocolGeneration::Stateful), task("ab", Some(60_000)));
        assert_eq!(find_created_task(stateless, ProtocolGeneration::Stateless), task("ab", None));
        assert_eq!(find_created_task(stateful, ProtocolGeneration::Stateless), Ok(None));
        assert_eq!(find_created_task(stateless, ProtocolGeneration::Stateful), Ok(None));
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
                (Ok(None), Ok(None)),
                "{other}"
            );
        }
    }

    #[test]
    fn result_that_cannot_be_searched_for_a_task_is_an_error() {
        let many: String = (0..256).map(|at| format!("\"m{at}\":{at},")).collect();
        let long = "x".repeat(SCALAR_LIMITS.max_bytes);
        for (result, generation) in [
            (r#"{"task":{"taskId":"x"},"z":1,"z":2}"#.to_owned(), ProtocolGeneration::Stateful),
            (r#"{"task":{"taskId":"x","taskId":"y"}}"#.to_owned(), ProtocolGeneration::Stateful),
            (format!(r#"{{"task":{{"taskId":"{long}"}}}}"#), ProtocolGeneration::Stateful),
            (format!(r#"{{{many}"resultType":"task","taskId":"x"}}"#), ProtocolGeneration::Stateless),
            (format!(r#"{{"resultType":"task","taskId":"{long}"}}"#), ProtocolGeneration::Stateless),
        ] {
            assert!(find_created_task(&result, generation).is_err(), "{}", result.get(..40).unwrap_or(&result));
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
