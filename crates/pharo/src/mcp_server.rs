//! Handles requests in both protocol generations, independently of the transport.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use gatelodge_json::{JsonLimits, quote_into};
use gatelodge_mcp::http_headers::{ProtocolError, error_status};
use gatelodge_mcp::{
    ClientMessage, ClientRequest, MessageError, Method, ProtocolGeneration, RequestId, Revision, ToolCall, code,
    error_response, read_client_message, result_response,
};
use http::StatusCode;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::active_requests::{ActiveRequest, ActiveRequests, BeginRequestError, RequestSlotKind};
use crate::arguments::{self, PharoArguments};
use crate::pharo_image::{ImageRequest, ImageResponse, PharoImage, PharoImageError};
use crate::pharo_tools::{HttpVerb, PharoTool, ToolEffect};
use crate::tool_result::{self, ToolResult};
use crate::{python_server_compat, request_encoding, tools_list};

/// The server's `Implementation` object.
const SERVER_INFO: &str = concat!(
    r#"{"name":"pharo-smalltalk-interop","title":"Pharo Smalltalk Interop","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);
const INSTRUCTIONS: &str = "Tools for one running Pharo Smalltalk image. Begin with the search and list tools; searches \
    match how a name begins. eval, import_package, install_project and the test tools run code in the image.";
/// How long clients may cache the list of tools, which never changes while the server runs.
const LIST_TTL_MS: u64 = 3_600_000;

/// Server settings.
#[derive(Debug, Clone)]
pub struct PharoSettings {
    /// Time limit for a response from the image.
    pub timeout: Duration,
    /// Time limit for tools that may take minutes: imports, exports, installations and test runs.
    pub long_timeout: Duration,
    /// Interval between progress notifications during a call.
    pub progress_interval: Duration,
    /// How long calls may continue after a stdio client has closed its input.
    pub call_drain_timeout: Duration,
    /// How long writing the remaining output to a stdio client may take, after its calls have ended or
    /// `call_drain_timeout` has passed.
    pub output_drain_timeout: Duration,
    /// Function that reads a screenshot file, or `None` if the image is on another machine, where the path would refer
    /// to an unrelated local file.
    pub read_screenshot: Option<ScreenshotReader>,
    /// Whether results use the format of the interop project's own MCP server.
    pub compat: bool,
}

/// Function that returns the content of a PNG file, or why it cannot be read. It may block.
pub type ScreenshotReader = fn(&str) -> Result<Vec<u8>, String>;

/// MCP server for one image.
#[derive(Debug)]
pub struct PharoServer {
    image: PharoImage,
    pub(crate) settings: PharoSettings,
    tools_json: String,
    pub(crate) active_requests: Arc<ActiveRequests>,
}

/// What a request asks the server to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum McpOperation {
    Initialize,
    Ping,
    Discover,
    ListTools,
    /// List resources, resource templates or prompts, of which this server has none. The value is the name of the empty
    /// list in the result.
    ListEmpty(&'static str),
    CallTool,
    Listen,
}

/// Channel for notifications that are sent before the reply, such as progress.
pub(crate) type NotificationSender = mpsc::Sender<String>;

impl PharoServer {
    /// Creates a server for an image. The image is not contacted until the first tool call.
    pub fn new(image: PharoImage, settings: PharoSettings) -> Self {
        let tools_json = tools_list::tools_json(settings.compat);
        Self { image, settings, tools_json, active_requests: Arc::new(ActiveRequests::new()) }
    }

    /// Registers a request, which can be cancelled from then on.
    ///
    /// # Errors
    /// Returns the error reply and its HTTP status if the request is refused.
    pub(crate) fn begin(
        &self,
        request: &ClientRequest<'_>,
        generation: ProtocolGeneration,
        session: Option<&str>,
    ) -> Result<(McpOperation, ActiveRequest), (StatusCode, String)> {
        let refused = |status, code, why: &str| Err((status, error_response(Some(request.id()), code, why, None)));
        let Some(operation) = McpOperation::of(request.method(), generation) else {
            // The status shows a stateless client that the method is missing, not the server.
            let status =
                if generation == ProtocolGeneration::Stateless { StatusCode::NOT_FOUND } else { StatusCode::OK };
            let why = format!("this server does not support {}", gatelodge_mcp::quote_excerpt(request.method().name()));
            return refused(status, code::METHOD_NOT_FOUND, &why);
        };
        if operation == McpOperation::CallTool
            && let Err(wire_error) = request.tool_call()
        {
            return refused(error_status(&wire_error, generation), wire_error.code, &wire_error.message);
        }
        let kind = if operation == McpOperation::Listen { RequestSlotKind::Stream } else { RequestSlotKind::Call };
        match self.active_requests.begin(kind, session, request.id()) {
            Ok(active_request) => Ok((operation, active_request)),
            Err(why @ BeginRequestError::Busy) => {
                refused(StatusCode::SERVICE_UNAVAILABLE, code::INTERNAL_ERROR, &why.to_string())
            }
            Err(why @ BeginRequestError::DuplicateId) => {
                refused(StatusCode::OK, code::INVALID_REQUEST, &why.to_string())
            }
        }
    }

    /// Handles a registered request. Returns `None` if it was cancelled.
    pub(crate) async fn respond(
        &self,
        request: &ClientRequest<'_>,
        (operation, generation): (McpOperation, ProtocolGeneration),
        active_request: &ActiveRequest,
        notifications: &NotificationSender,
    ) -> Option<String> {
        tokio::select! {
            biased;
            () = active_request.cancelled() => None,
            answer = self.handle(request, operation, generation, notifications) => Some(answer),
        }
    }

    async fn handle(
        &self,
        request: &ClientRequest<'_>,
        operation: McpOperation,
        generation: ProtocolGeneration,
        notifications: &NotificationSender,
    ) -> String {
        let answered = |text: &str| result_response(request.id(), text);
        match operation {
            McpOperation::Initialize => answered(&initialize_result(request)),
            McpOperation::Ping => answered("{}"),
            McpOperation::Discover => answered(&discover_result()),
            McpOperation::ListTools => {
                let more = if generation == ProtocolGeneration::Stateless {
                    format!(r#","resultType":"complete",{}"#, caching_members())
                } else {
                    String::new()
                };
                answered(&format!(r#"{{"tools":{}{more}}}"#, self.tools_json))
            }
            McpOperation::ListEmpty(what) => answered(&format!(r#"{{"{what}":[]}}"#)),
            McpOperation::CallTool => self.call_tool(request, generation, notifications).await,
            McpOperation::Listen => {
                // The tools never change, so no notification follows. The stream stays open as the client expects.
                let _ = notifications.send(acknowledgement(request.id())).await;
                std::future::pending().await
            }
        }
    }

    async fn call_tool(
        &self,
        request: &ClientRequest<'_>,
        generation: ProtocolGeneration,
        notifications: &NotificationSender,
    ) -> String {
        let call = match request.tool_call() {
            Ok(call) => call,
            Err(wire_error) => return error_response(Some(request.id()), wire_error.code, &wire_error.message, None),
        };
        let Some(tool) = PharoTool::find(&call.name) else {
            if self.settings.compat {
                return result_response(
                    request.id(),
                    &python_server_compat::unknown_tool_result(&call.name).write(generation),
                );
            }
            let what =
                format!("there is no tool {}; `tools/list` names them", gatelodge_mcp::quote_excerpt(&call.name));
            return error_response(Some(request.id()), code::INVALID_PARAMS, &what, None);
        };
        let given = arguments::read(tool, call.arguments, self.settings.compat);
        let outcome = match given {
            Err(why) => ToolResult::failed(&why),
            Ok(arguments) => self.run_tool(tool, arguments, &call, notifications).await,
        };
        result_response(request.id(), &outcome.write(generation))
    }

    async fn run_tool(
        &self,
        tool: &PharoTool,
        arguments: PharoArguments,
        call: &ToolCall<'_>,
        notifications: &NotificationSender,
    ) -> ToolResult {
        let arguments =
            if self.settings.compat { python_server_compat::rewrite_arguments(arguments) } else { arguments };
        let image_request = match tool.verb {
            HttpVerb::Get => ImageRequest {
                verb: HttpVerb::Get,
                target: request_encoding::request_target(tool.endpoint, &arguments),
                body: String::new(),
            },
            HttpVerb::Post => ImageRequest {
                verb: HttpVerb::Post,
                target: tool.endpoint.to_owned(),
                body: request_encoding::json_body(&arguments),
            },
        };
        let answer = self.ask_image(tool, image_request, call.meta.progress_token(), notifications).await;
        if self.settings.compat {
            return python_server_compat::to_tool_result(tool, answer);
        }
        match tool_result::read(&self.image, &answer) {
            Err(why) => ToolResult::failed(&why),
            Ok(success) => match success.value {
                None => ToolResult::of_object(success.object)
                    .with_text(&tool_result::missing_value_text(tool, success.error)),
                Some(value) => {
                    let given = ToolResult::of_object(success.object).with_text(&tool_result::as_text(value));
                    match self.settings.read_screenshot {
                        Some(read) if tool.effect == ToolEffect::CapturesScreen => {
                            with_screenshot(given, value, read).await
                        }
                        _ => given,
                    }
                }
            },
        }
    }

    /// Sends a request to the image, and sends progress notifications until it responds.
    async fn ask_image(
        &self,
        tool: &PharoTool,
        image_request: ImageRequest,
        token: Option<RequestId<'_>>,
        notifications: &NotificationSender,
    ) -> Result<ImageResponse, PharoImageError> {
        let is_long = tool.is_long_running && !self.settings.compat;
        let time = if is_long { self.settings.long_timeout } else { self.settings.timeout };
        let mut asking = std::pin::pin!(self.image.send(image_request, time));
        let Some(token) = token else { return asking.await };
        let begin = Instant::now();
        let mut progress_ticks =
            tokio::time::interval_at(begin + self.settings.progress_interval, self.settings.progress_interval);
        let mut count = 0;
        loop {
            tokio::select! {
                answer = &mut asking => return answer,
                _ = progress_ticks.tick() => {
                    count += 1;
                    // A client that does not read must not block the response of the image.
                    let _ = notifications.try_send(progress_notification(&token, count, tool, begin.elapsed()));
                }
            }
        }
    }
}

impl McpOperation {
    /// Returns the operation for a method, or `None` if the protocol generation or this server does not support it.
    fn of(method: &Method<'_>, generation: ProtocolGeneration) -> Option<Self> {
        Some(match (method, generation) {
            (Method::Initialize, ProtocolGeneration::Stateful) => Self::Initialize,
            (Method::Ping, ProtocolGeneration::Stateful) => Self::Ping,
            (Method::Discover, ProtocolGeneration::Stateless) => Self::Discover,
            (Method::ToolsList, _) => Self::ListTools,
            // Cursor sends these whatever the capabilities say, and shows an error as a failure of the server.
            (Method::ResourcesList, ProtocolGeneration::Stateful) => Self::ListEmpty("resources"),
            (Method::ResourceTemplatesList, ProtocolGeneration::Stateful) => Self::ListEmpty("resourceTemplates"),
            (Method::PromptsList, ProtocolGeneration::Stateful) => Self::ListEmpty("prompts"),
            (Method::ToolsCall, _) => Self::CallTool,
            (Method::Listen, ProtocolGeneration::Stateless) => Self::Listen,
            _ => return None,
        })
    }
}

/// Returns the error reply to a request that violates the rules of its protocol generation.
pub(crate) fn protocol_error_reply(id: Option<&RequestId<'_>>, protocol_error: &ProtocolError) -> String {
    error_response(id, protocol_error.code, &protocol_error.message, protocol_error.data.as_deref())
}

/// Returns whether a message has neither an id nor a known method. It is then a notification from a later protocol
/// revision, and gets no reply.
pub(crate) fn is_unknown_notification(wire_error: &MessageError) -> bool {
    wire_error.id.is_none() && wire_error.code == code::METHOD_NOT_FOUND
}

/// Parses a client's message.
pub(crate) fn read(text: &[u8]) -> Result<ClientMessage<'_>, MessageError> {
    read_client_message(text, &JsonLimits::REQUEST)
}

/// Returns the error reply to an invalid message.
pub(crate) fn parse_error_reply(wire_error: &MessageError) -> String {
    error_response(wire_error.id.as_ref(), wire_error.code, &wire_error.message, None)
}

fn initialize_result(request: &ClientRequest<'_>) -> String {
    let asked = request.params().and_then(|params| params.get("protocolVersion")?.as_str());
    let revision = asked
        .and_then(|asked| asked.parse().ok())
        .filter(|revision: &Revision| revision.generation() == ProtocolGeneration::Stateful);
    let revision = revision.unwrap_or(Revision::R2025_11_25);
    let mut out =
        format!(r#"{{"protocolVersion":"{revision}","capabilities":{{"tools":{{}}}},"serverInfo":{SERVER_INFO},"#);
    out.push_str(r#""instructions":"#);
    quote_into(INSTRUCTIONS, &mut out);
    out.push('}');
    out
}

fn discover_result() -> String {
    let versions: Vec<String> = Revision::ALL.iter().rev().map(|revision| format!("\"{revision}\"")).collect();
    let mut out = format!(r#"{{"supportedVersions":[{}],"capabilities":{{"tools":{{}}}},"#, versions.join(","));
    out.push_str(r#""instructions":"#);
    quote_into(INSTRUCTIONS, &mut out);
    out.push_str(&format!(r#","resultType":"complete",{}}}"#, caching_members()));
    out
}

/// Returns the members of a stateless result that say how long it may be cached and which server sent it.
fn caching_members() -> String {
    let info = r#""_meta":{"io.modelcontextprotocol/serverInfo":"#;
    format!(r#""ttlMs":{LIST_TTL_MS},"cacheScope":"public",{info}{SERVER_INFO}}}"#)
}

fn acknowledgement(id: &RequestId<'_>) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{{}},"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
    )
}

fn progress_notification(token: &RequestId<'_>, count: u64, tool: &PharoTool, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{count},"message":"{} has been running in the image for {seconds} s"}}}}"#,
        tool.name
    )
}

/// Adds the screenshot to a tool result, or a text that says why it cannot be read. `value` is the value that the image
/// returned, which contains the path of the screenshot.
async fn with_screenshot(given: ToolResult, value: &str, read: ScreenshotReader) -> ToolResult {
    let path = serde_json::from_str::<serde_json::Value>(value).ok();
    let path = path.as_ref().and_then(|value| value.get("screenshot")?.as_str()).map(str::to_owned);
    let Some(path) = path else { return given };
    let read = tokio::task::spawn_blocking(move || read(&path).map_err(|why| (path, why))).await;
    match read {
        Ok(Ok(picture)) => given.with_png(&BASE64.encode(&picture)),
        Ok(Err((path, why))) => {
            given.with_text(&format!("The screenshot is in `{path}` on the image's machine: {why}."))
        }
        Err(_) => given,
    }
}
