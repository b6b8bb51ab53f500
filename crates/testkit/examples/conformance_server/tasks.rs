//! Tools that may become tasks: the call returns at once, and the client polls the task.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, CreateTaskResult,
    GetTaskParams, GetTaskResult, JsonObject,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskContext, TaskExit, TaskFuture, TaskOptions};
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;

use crate::fixture::Fixture;
use crate::rounds::{answer, need, user};
use crate::tools::say;

/// Tools of this file, and whether each works only as a task.
const TOOLS: [(&str, bool); 7] = [
    ("greet", false),
    ("slow_compute", false),
    ("failing_job", true),
    ("protocol_error_job", false),
    ("confirm_delete", true),
    ("multi_input", true),
    ("test_tool_with_task", true),
];

/// How long a job runs before it fails, so that a client that polls at once still sees it running.
const JOB_DURATION: Duration = Duration::from_millis(800);

pub fn is_one(name: &str) -> bool {
    TOOLS.iter().any(|(own, _)| *own == name)
}

pub fn get(fixture: &Fixture, request: &GetTaskParams) -> Result<GetTaskResult, ErrorData> {
    Ok(GetTaskResult::new(fixture.tasks.get_task(&request.task_id)?))
}

pub async fn call(
    fixture: &Fixture,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let may_be_task = context.client_capabilities().is_some_and(|client| client.supports_tasks());
    if !may_be_task && TOOLS.contains(&(request.name.as_ref(), true)) {
        let needed = ClientCapabilities::builder().enable_tasks().build();
        return Err(ErrorData::missing_required_client_capability(needed));
    }
    let arguments = request.arguments.clone().unwrap_or_default();
    let text = |member: &str| arguments.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
    match request.name.as_ref() {
        "slow_compute" if may_be_task => Ok(begin(fixture, move |task| Box::pin(compute(task, arguments)))),
        "slow_compute" => {
            tokio::time::sleep(seconds(&arguments)).await;
            Ok(say("Computed.").into())
        }
        "failing_job" => Ok(begin(fixture, |_| Box::pin(fail()))),
        "protocol_error_job" if may_be_task => Ok(begin(fixture, |_| Box::pin(fail_with_protocol_error()))),
        "protocol_error_job" => Err(broken()),
        "confirm_delete" => {
            let name = text("filename");
            Ok(begin(fixture, move |task| Box::pin(confirm(task, name))))
        }
        "multi_input" => Ok(begin(fixture, |task| Box::pin(ask_twice(task)))),
        "test_tool_with_task" => match answer(request.input_responses.as_ref(), "user_name", "/content/name") {
            None => Ok(need(vec![("user_name", user("Your name?", "name")?)]).into()),
            Some(name) => Ok(begin(fixture, move |_| Box::pin(async move { Ok(say(format!("Hello, {name}!"))) }))),
        },
        _ => Ok(say(format!("Hello, {}!", text("name"))).into()),
    }
}

fn begin(fixture: &Fixture, work: impl FnOnce(TaskContext) -> TaskFuture + Send + 'static) -> CallToolResponse {
    CreateTaskResult::new(fixture.tasks.spawn(TaskOptions::default(), work)).into()
}

fn seconds(arguments: &JsonObject) -> Duration {
    let seconds = arguments.get("seconds").and_then(Value::as_f64).unwrap_or(1.0);
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

async fn compute(task: TaskContext, arguments: JsonObject) -> Result<CallToolResult, TaskExit> {
    tokio::select! {
        () = task.cancelled() => Err(TaskExit::Cancelled),
        () = tokio::time::sleep(seconds(&arguments)) => Ok(say("Computed.")),
    }
}

async fn fail() -> Result<CallToolResult, TaskExit> {
    tokio::time::sleep(JOB_DURATION).await;
    Ok(CallToolResult::error(vec![ContentBlock::text("This job always fails.")]))
}

async fn fail_with_protocol_error() -> Result<CallToolResult, TaskExit> {
    tokio::time::sleep(JOB_DURATION).await;
    Err(TaskExit::Error(broken()))
}

fn broken() -> ErrorData {
    ErrorData::internal_error("this job always breaks off", None)
}

async fn confirm(task: TaskContext, name: String) -> Result<CallToolResult, TaskExit> {
    let question = user(&format!("Delete {name}?"), "ok").map_err(TaskExit::Error)?;
    let answer = task.request_input("confirm", question).await?;
    Ok(say(format!("The user said: {answer}")))
}

/// Asks two questions at once, so that one can be answered without the other.
async fn ask_twice(task: TaskContext) -> Result<CallToolResult, TaskExit> {
    let first = task.request_input("first", user("The first?", "value").map_err(TaskExit::Error)?);
    let second = task.request_input("second", user("The second?", "value").map_err(TaskExit::Error)?);
    let (first, second) = tokio::try_join!(first, second)?;
    Ok(say(format!("The user said: {first} and {second}")))
}
