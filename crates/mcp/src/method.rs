//! The methods of all revisions: who may send them, and whether an answer is due.
//!
//! Names are exact bytes. Who may use a method is not decided here.

use std::borrow::Cow;
use std::fmt;

use crate::revision::ProtocolGeneration;

/// The longest name of a method that is not known here. The longest known one has 40 bytes.
const MAX_METHOD_BYTES: usize = 256;

/// Who sends a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MethodDirection {
    /// The client only.
    ToServer,
    /// The server only.
    ToClient,
    /// Either side.
    Both,
}

/// Whether an answer is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MethodKind {
    /// Carries an id and is answered.
    Request,
    /// Carries no id and is not answered.
    Notification,
}

/// Writes the enum and everything that must agree with it, from one table.
macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident $name:literal $form:ident $direction:ident;)*) => {
        /// A method of the protocol, or the name of another one.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Method<'a> {
            $($(#[$doc])* #[doc = concat!("`", $name, "`.")] $variant,)*
            /// A name that no revision knows.
            Other(Cow<'a, str>),
        }

        impl<'a> Method<'a> {
            /// All methods that are known.
            pub const KNOWN: &'static [Method<'static>] = &[$(Method::$variant),*];

            /// Finds the method of this exact name.
            pub fn of(name: Cow<'a, str>) -> Self {
                match name.as_ref() {
                    $($name => Self::$variant,)*
                    _ => Self::Other(name),
                }
            }

            /// The name as it is written on the wire.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }

            /// What is known of the method; none for another one.
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
    /// Clients may send it too, but need not; a caller's notifications are kept to four names.
    TaskStatus "notifications/tasks/status" Notification ToClient;
    TaskChanged "notifications/tasks" Notification ToClient;
}

impl Method<'_> {
    /// Whether an era does not have the method: it was taken away, or came later.
    pub fn is_absent_in(&self, era: ProtocolGeneration) -> bool {
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
        match era {
            ProtocolGeneration::Stateful => *self == Self::Listen,
            ProtocolGeneration::Stateless => is_of_sessions,
        }
    }

    /// Whether a caller may send this as a message of the given form.
    ///
    /// Of requests, every method but those of servers. Of notifications, the four that the protocol gives to clients:
    /// what is not understood is not relayed.
    pub fn can_client_send(&self, form: MethodKind) -> bool {
        match self.kind_and_direction() {
            Some((own, direction)) => own == form && direction != MethodDirection::ToClient,
            None => form == MethodKind::Request && is_unambiguous_name(self.name()),
        }
    }
}

/// Whether a name that is not known here can be taken for nothing but itself: visible ASCII in non-empty segments,
/// and no known name in other case. An upstream that folds case or trims must not find more than was judged.
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
