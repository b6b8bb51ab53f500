//! The methods of all revisions: which side sends them, and whether they expect a response.
//!
//! Method names are compared byte by byte. Whether a client may use a method is decided by the policy, not here.

use std::borrow::Cow;
use std::fmt;

use crate::revision::ProtocolGeneration;

/// Maximum length of an unknown method name in bytes. The longest known name has 40.
const MAX_METHOD_BYTES: usize = 256;

/// The side that sends a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MethodDirection {
    /// Only clients send the method.
    ToServer,
    /// Only servers send the method.
    ToClient,
    /// Either side may send the method.
    Both,
}

/// Whether a method expects a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MethodKind {
    /// A message with an id, which expects a response.
    Request,
    /// A message without an id, which expects no response.
    Notification,
}

/// Generates the enum and its functions from one table.
macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident $name:literal $form:ident $direction:ident;)*) => {
        /// A method of the protocol, or an unknown name.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Method<'a> {
            $($(#[$doc])* #[doc = concat!("`", $name, "`.")] $variant,)*
            /// A name that no revision defines.
            Other(Cow<'a, str>),
        }

        impl<'a> Method<'a> {
            /// All known methods.
            pub const KNOWN: &'static [Method<'static>] = &[$(Method::$variant),*];

            /// Returns the method with exactly this name.
            pub fn of(name: Cow<'a, str>) -> Self {
                match name.as_ref() {
                    $($name => Self::$variant,)*
                    _ => Self::Other(name),
                }
            }

            /// The method's name on the wire.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }

            /// Kind and direction of the method; `None` for unknown methods.
            pub fn kind_and_direction(&self) -> Option<(MethodKind, MethodDirection)> {
                match self {
                    $(Self::$variant => Some((MethodKind::$form, MethodDirection::$direction)),)*
                    Self::Other(_) => None,
                }
            }
        }
    };
}

methods! {
    Initialize "initialize" Request ToServer;
    Discover "server/discover" Request ToServer;
    Ping "ping" Request Both;
    ToolsList "tools/list" Request ToServer;
    ToolsCall "tools/call" Request ToServer;
    ResourcesList "resources/list" Request ToServer;
    ResourceTemplatesList "resources/templates/list" Request ToServer;
    ResourcesRead "resources/read" Request ToServer;
    ResourcesSubscribe "resources/subscribe" Request ToServer;
    ResourcesUnsubscribe "resources/unsubscribe" Request ToServer;
    PromptsList "prompts/list" Request ToServer;
    PromptsGet "prompts/get" Request ToServer;
    Complete "completion/complete" Request ToServer;
    SetLevel "logging/setLevel" Request ToServer;
    Listen "subscriptions/listen" Request ToServer;
    TasksGet "tasks/get" Request Both;
    TasksResult "tasks/result" Request Both;
    TasksList "tasks/list" Request Both;
    TasksCancel "tasks/cancel" Request Both;
    TasksUpdate "tasks/update" Request ToServer;
    CreateMessage "sampling/createMessage" Request ToClient;
    Elicit "elicitation/create" Request ToClient;
    RootsList "roots/list" Request ToClient;
    Initialized "notifications/initialized" Notification ToServer;
    Cancelled "notifications/cancelled" Notification Both;
    Progress "notifications/progress" Notification Both;
    RootsListChanged "notifications/roots/list_changed" Notification ToServer;
    LogMessage "notifications/message" Notification ToClient;
    ResourceUpdated "notifications/resources/updated" Notification ToClient;
    ResourcesListChanged "notifications/resources/list_changed" Notification ToClient;
    ToolsListChanged "notifications/tools/list_changed" Notification ToClient;
    PromptsListChanged "notifications/prompts/list_changed" Notification ToClient;
    ElicitationComplete "notifications/elicitation/complete" Notification ToClient;
    SubscriptionsAcknowledged "notifications/subscriptions/acknowledged" Notification ToClient;
    /// The specification also allows clients to send this notification, but does not require it; the gateway does not
    /// accept it from clients.
    TaskStatus "notifications/tasks/status" Notification ToClient;
    TaskChanged "notifications/tasks" Notification ToClient;
}

impl Method<'_> {
    /// Returns whether a protocol generation lacks the method, because it was removed or had not been defined yet.
    pub fn is_absent_in(&self, generation: ProtocolGeneration) -> bool {
        let is_of_sessions = matches!(
            self,
            Self::Initialize
                | Self::Initialized
                | Self::Ping
                | Self::SetLevel
                | Self::ResourcesSubscribe
                | Self::ResourcesUnsubscribe
                | Self::RootsListChanged
                | Self::TasksResult
                | Self::TasksList
        );
        match generation {
            ProtocolGeneration::Stateful => *self == Self::Listen,
            ProtocolGeneration::Stateless => is_of_sessions,
        }
    }

    /// Returns whether a server may ask the client for input before it responds to a request with this method.
    pub fn can_request_input(&self) -> bool {
        matches!(self, Self::ToolsCall | Self::PromptsGet | Self::ResourcesRead)
    }

    /// Returns whether a client may send this method as a message of the given kind.
    ///
    /// Clients may send requests with any method that is not reserved for servers. Unknown methods are accepted if
    /// their names are unambiguous. Notifications are limited to the four that the protocol defines for clients;
    /// unknown ones are not forwarded.
    pub fn can_client_send(&self, kind: MethodKind) -> bool {
        match self.kind_and_direction() {
            Some((own, direction)) => own == kind && direction != MethodDirection::ToClient,
            None => kind == MethodKind::Request && is_unambiguous_name(self.name()),
        }
    }
}

/// Returns whether an unknown name is unambiguous: it consists of non-empty segments of visible ASCII, and is not a
/// known name in a different case. Otherwise, an upstream that ignores case or trims names could run a method that the
/// policy did not check.
fn is_unambiguous_name(name: &str) -> bool {
    let is_visible = name.bytes().all(|byte| byte.is_ascii_graphic());
    let has_empty_segment = name.split('/').any(str::is_empty);
    let is_known_in_other_case = Method::KNOWN.iter().any(|known| known.name().eq_ignore_ascii_case(name));
    name.len() <= MAX_METHOD_BYTES && is_visible && !has_empty_segment && !is_known_in_other_case
}

impl fmt::Display for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
