//! The server: a request of either era, and its answer. What carries it, and where the answer goes, is not known here.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use gatelodge_json::{JsonLimits, quote_into};
use gatelodge_mcp::http_headers::{ProtocolError, fault_status};
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
use crate::{compat, request_encoding, tools_list};

/// What clients are told of the server.
const SERVER_INFO: &str = concat!(
    r#"{"name":"pharo-smalltalk-interop","title":"Pharo Smalltalk Interop","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}"#
);
const INSTRUCTIONS: &str = "Tools for one running Pharo Smalltalk image. Begin with the search and list tools; searches \
    match how a name begins. eval, import_package, install_project and the test tools run code in the image.";
/// The tools never change while the server runs.
const LIST_TTL_MS: u64 = 3_600_000;

/// How the server behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Time for the image to answer.
    pub time: Duration,
    /// The same for what may take minutes: imports, exports, installations, tests.
    pub long_time: Duration,
    /// How often a caller who asked for it hears that a call is still under way.
    pub beat: Duration,
    /// How long calls may go on once a client over lines has closed its end.
    pub last_calls: Duration,
    /// How long that client may take for what it was told last.
    pub last_words: Duration,
    /// Reads the picture of a screen; none where the image is on another machine, and its path names some file of ours.
    pub read_picture: Option<ReadPicture>,
    /// Results in the shape of the interop server's own MCP server.
    pub is_compat: bool,
}

/// Gives the bytes of a PNG file, or says why it cannot. It may take its time.
pub type ReadPicture = fn(&str) -> Result<Vec<u8>, String>;

/// The server.
#[derive(Debug)]
pub struct Pharo {
    image: PharoImage,
    pub(crate) settings: Settings,
    tools: String,
    pub(crate) running: Arc<ActiveRequests>,
}

/// What is done for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Greet,
    Ping,
    Discover,
    ListTools,
    /// There is none of what is listed under this name.
    ListNothing(&'static str),
    Call,
    Listen,
}

/// Where texts before the answer go.
pub(crate) type Outlet = mpsc::Sender<String>;

impl Pharo {
    /// A server for an image. Nothing is asked of the image before a tool is called.
    pub fn new(image: PharoImage, settings: Settings) -> Self {
        let tools = tools_list::tools_json(settings.is_compat);
        Self { image, settings, tools, running: Arc::new(ActiveRequests::new()) }
    }

    /// Begins a request: from here on it can be cancelled.
    ///
    /// # Errors
    /// It is not taken: the answer, and its status.
    pub(crate) fn begin(
        &self,
        request: &ClientRequest<'_>,
        era: ProtocolGeneration,
        session: Option<&str>,
    ) -> Result<(Deed, ActiveRequest), (StatusCode, String)> {
        let refused = |status, code, why: &str| Err((status, error_response(Some(request.id()), code, why, None)));
        let Some(deed) = Deed::of(request.method(), era) else {
            // A stateless client tells by the status that the method, not the server, is missing.
            let status = if era == ProtocolGeneration::Stateless { StatusCode::NOT_FOUND } else { StatusCode::OK };
            let why = format!("this server does not know {}", gatelodge_mcp::quote_excerpt(request.method().name()));
            return refused(status, code::METHOD_NOT_FOUND, &why);
        };
        if deed == Deed::Call
            && let Err(fault) = request.tool_call()
        {
            return refused(fault_status(&fault, era), fault.code, &fault.message);
        }
        let place = if deed == Deed::Listen { RequestSlotKind::Stream } else { RequestSlotKind::Call };
        match self.running.begin(place, session, request.id()) {
            Ok(entry) => Ok((deed, entry)),
            Err(why @ BeginRequestError::Busy) => {
                refused(StatusCode::SERVICE_UNAVAILABLE, code::INTERNAL_ERROR, &why.to_string())
            }
            Err(why @ BeginRequestError::DuplicateId) => {
                refused(StatusCode::OK, code::INVALID_REQUEST, &why.to_string())
            }
        }
    }

    /// Answers a request that was begun; none if it was cancelled.
    pub(crate) async fn answer(
        &self,
        request: &ClientRequest<'_>,
        (deed, era): (Deed, ProtocolGeneration),
        entry: &ActiveRequest,
        outlet: &Outlet,
    ) -> Option<String> {
        tokio::select! {
            biased;
            () = entry.cancelled() => None,
            answer = self.handle(request, deed, era, outlet) => Some(answer),
        }
    }

    async fn handle(
        &self,
        request: &ClientRequest<'_>,
        deed: Deed,
        era: ProtocolGeneration,
        outlet: &Outlet,
    ) -> String {
        let answered = |text: &str| result_response(request.id(), text);
        match deed {
            Deed::Greet => answered(&initialized(request)),
            Deed::Ping => answered("{}"),
            Deed::Discover => answered(&discovered()),
            Deed::ListTools => {
                let more = if era == ProtocolGeneration::Stateless {
                    format!(r#","resultType":"complete",{}"#, caching_members())
                } else {
                    String::new()
                };
                answered(&format!(r#"{{"tools":{}{more}}}"#, self.tools))
            }
            Deed::ListNothing(what) => answered(&format!(r#"{{"{what}":[]}}"#)),
            Deed::Call => self.call(request, era, outlet).await,
            Deed::Listen => {
                // There is nothing to hear of: the tools do not change. The stream stays open, as its caller wants it.
                let _ = outlet.send(acknowledgement(request.id())).await;
                std::future::pending().await
            }
        }
    }

    async fn call(&self, request: &ClientRequest<'_>, era: ProtocolGeneration, outlet: &Outlet) -> String {
        let call = match request.tool_call() {
            Ok(call) => call,
            Err(fault) => return error_response(Some(request.id()), fault.code, &fault.message, None),
        };
        let Some(tool) = PharoTool::find(&call.name) else {
            if self.settings.is_compat {
                return result_response(request.id(), &compat::unknown_tool_result(&call.name).write(era));
            }
            let what =
                format!("there is no tool {}; `tools/list` names them", gatelodge_mcp::quote_excerpt(&call.name));
            return error_response(Some(request.id()), code::INVALID_PARAMS, &what, None);
        };
        let given = arguments::read(tool, call.arguments, self.settings.is_compat);
        let outcome = match given {
            Err(why) => ToolResult::failed(&why),
            Ok(arguments) => self.carry(tool, arguments, &call, outlet).await,
        };
        result_response(request.id(), &outcome.write(era))
    }

    async fn carry(
        &self,
        tool: &PharoTool,
        arguments: PharoArguments,
        call: &ToolCall<'_>,
        outlet: &Outlet,
    ) -> ToolResult {
        let arguments = if self.settings.is_compat { compat::rewrite_arguments(arguments) } else { arguments };
        let question = match tool.verb {
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
        let answer = self.ask(tool, question, call.meta.progress_token(), outlet).await;
        if self.settings.is_compat {
            return compat::to_tool_result(tool, answer);
        }
        match tool_result::read(&self.image, &answer) {
            Err(why) => ToolResult::failed(&why),
            Ok(success) => match success.value {
                None => {
                    ToolResult::of_object(success.object).with_text(&tool_result::without_value(tool, success.error))
                }
                Some(value) => {
                    let given = ToolResult::of_object(success.object).with_text(&tool_result::as_text(value));
                    match self.settings.read_picture {
                        Some(read) if tool.effect == ToolEffect::CapturesScreen => {
                            with_screenshot(given, value, read).await
                        }
                        _ => given,
                    }
                }
            },
        }
    }

    /// Asks the image, and tells meanwhile that it is still at it.
    async fn ask(
        &self,
        tool: &PharoTool,
        question: ImageRequest,
        token: Option<RequestId<'_>>,
        outlet: &Outlet,
    ) -> Result<ImageResponse, PharoImageError> {
        let is_long = tool.is_long_running && !self.settings.is_compat;
        let time = if is_long { self.settings.long_time } else { self.settings.time };
        let mut asking = std::pin::pin!(self.image.send(question, time));
        let Some(token) = token else { return asking.await };
        let begin = Instant::now();
        let mut beat = tokio::time::interval_at(begin + self.settings.beat, self.settings.beat);
        let mut count = 0;
        loop {
            tokio::select! {
                answer = &mut asking => return answer,
                _ = beat.tick() => {
                    count += 1;
                    // A caller that does not read must not keep the answer from being read.
                    let _ = outlet.try_send(progress_notification(&token, count, tool, begin.elapsed()));
                }
            }
        }
    }
}

impl Deed {
    /// What a method asks for; none if its era or this server does not know it.
    fn of(method: &Method<'_>, era: ProtocolGeneration) -> Option<Self> {
        Some(match (method, era) {
            (Method::Initialize, ProtocolGeneration::Stateful) => Self::Greet,
            (Method::Ping, ProtocolGeneration::Stateful) => Self::Ping,
            (Method::Discover, ProtocolGeneration::Stateless) => Self::Discover,
            (Method::ToolsList, _) => Self::ListTools,
            // Cursor asks for these whatever a server says it can do, and shows an error as one of the server.
            (Method::ResourcesList, ProtocolGeneration::Stateful) => Self::ListNothing("resources"),
            (Method::ResourceTemplatesList, ProtocolGeneration::Stateful) => Self::ListNothing("resourceTemplates"),
            (Method::PromptsList, ProtocolGeneration::Stateful) => Self::ListNothing("prompts"),
            (Method::ToolsCall, _) => Self::Call,
            (Method::Listen, ProtocolGeneration::Stateless) => Self::Listen,
            _ => return None,
        })
    }
}

/// What is said to a request that does not fit the way in which its client speaks.
pub(crate) fn misfit(id: Option<&RequestId<'_>>, misfit: &ProtocolError) -> String {
    error_response(id, misfit.code, &misfit.message, misfit.data.as_deref())
}

/// Whether a text has neither id nor known method: a notification of some later revision, which wants no answer.
pub(crate) fn is_of_later_revision(fault: &MessageError) -> bool {
    fault.id.is_none() && fault.code == code::METHOD_NOT_FOUND
}

/// Reads a message of a client.
pub(crate) fn read(text: &[u8]) -> Result<ClientMessage<'_>, MessageError> {
    read_client_message(text, &JsonLimits::REQUEST)
}

/// What is said to a text that is no message.
pub(crate) fn unreadable(fault: &MessageError) -> String {
    error_response(fault.id.as_ref(), fault.code, &fault.message, None)
}

fn initialized(request: &ClientRequest<'_>) -> String {
    let asked = request.params().and_then(|params| params.get("protocolVersion")?.as_str());
    let spoken = asked
        .and_then(|asked| asked.parse().ok())
        .filter(|revision: &Revision| revision.generation() == ProtocolGeneration::Stateful);
    let spoken = spoken.unwrap_or(Revision::R2025_11_25);
    let mut out =
        format!(r#"{{"protocolVersion":"{spoken}","capabilities":{{"tools":{{}}}},"serverInfo":{SERVER_INFO},"#);
    out.push_str(r#""instructions":"#);
    quote_into(INSTRUCTIONS, &mut out);
    out.push('}');
    out
}

fn discovered() -> String {
    let versions: Vec<String> = Revision::ALL.iter().rev().map(|revision| format!("\"{revision}\"")).collect();
    let mut out = format!(r#"{{"supportedVersions":[{}],"capabilities":{{"tools":{{}}}},"#, versions.join(","));
    out.push_str(r#""instructions":"#);
    quote_into(INSTRUCTIONS, &mut out);
    out.push_str(&format!(r#","resultType":"complete",{}}}"#, caching_members()));
    out
}

/// What every stateless list says of how long it holds, and of whom it comes from.
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

/// With the picture that the value names, or why there is none.
async fn with_screenshot(given: ToolResult, value: &str, read: ReadPicture) -> ToolResult {
    let path = serde_json::from_str::<serde_json::Value>(value).ok();
    let path = path.as_ref().and_then(|value| value.get("screenshot")?.as_str()).map(str::to_owned);
    let Some(path) = path else { return given };
    let read = tokio::task::spawn_blocking(move || read(&path).map_err(|why| (path, why))).await;
    match read {
        Ok(Ok(picture)) => given.with_png(&BASE64.encode(&picture)),
        Ok(Err((path, why))) => given.with_text(&format!("The picture is at {path} on the image's machine; {why}.")),
        Err(_) => given,
    }
}
