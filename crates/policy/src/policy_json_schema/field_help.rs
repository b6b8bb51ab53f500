//! Help texts for editors, for each field and word.

/// Help for one field.
pub(super) struct FieldHelp {
    pub title: &'static str,
    pub text: &'static str,
}

pub(super) const POLICY_DESCRIPTION: &str =
    "What agents may do on one server. It is attached to grants; what cannot be judged is denied.";

const fn field_help(title: &'static str, text: &'static str) -> Option<FieldHelp> {
    Some(FieldHelp { title, text })
}

pub(super) fn policy_field_help(field: &str) -> Option<FieldHelp> {
    match field {
        "version" => field_help("Version", "The version of the language. Only \"1\" is known."),
        "description" => field_help("Description", "What the policy is for. For people; it decides nothing."),
        "$schema" => field_help("Schema", "Where editors find this schema. It decides nothing."),
        "default" => field_help("Default", "The fate of tools, resources and prompts that no other part speaks of."),
        "hide" => field_help("Hidden tools", "Names or globs of tools that are not listed, and not there when called."),
        "all_tools" => field_help("All tools", "A rule block that holds for every tool call, besides the tool's own."),
        "categories" => field_help(
            "Categories",
            "Rules for tools that `tools` does not match, by what the tool can do. A tool whose category is here counts as listed.",
        ),
        "tools" => field_help("Tools", "Rule blocks by tool name or glob. `{}` allows the tool without checks."),
        "resources" => {
            field_help("Resources", "Rule blocks by URI or glob of URIs. Conditions find the URI in `args.uri`.")
        }
        "prompts" => field_help(
            "Prompts",
            "Rule blocks by prompt name or glob. Conditions find the prompt's arguments in `args`.",
        ),
        "methods" => field_help(
            "Other methods",
            "Methods that no other part speaks of, or `x/*` for all that begin with `x/`. Once this field is there, what it does not name is denied.",
        ),
        "client_requests" => field_help("Requests to the client", "What the server may ask of the client."),
        "time_zone" => field_help(
            "Time zone",
            "The zone of `time.*` conditions, by its exact IANA name; else UTC. Limits are always in UTC.",
        ),
        _ => None,
    }
}

pub(super) fn block_field_help(field: &str) -> Option<FieldHelp> {
    match field {
        "action" => field_help("Action", "What happens to a call that passes all checks of the block."),
        "reason" => field_help("Reason", "Shown to the agent with `deny`, to the person who is asked with `approve`."),
        "require" => {
            field_help("Require", "Each of these must hold, or the call is denied. What is absent does not hold.")
        }
        "deny_if" => field_help("Deny if", "None of these may hold. Empty `conditions` always hold."),
        "approve_if" => field_help("Approve if", "If one of these holds, the call waits for a person."),
        "limits" => {
            field_help("Limits", "How much in which window. Each must have room; all are charged together or none.")
        }
        "rate_limit" => {
            field_help("Rate limit", "Short for one limit on calls of this tool: `10/minute`, or an object.")
        }
        "validate_arguments" => field_help(
            "Validate arguments",
            "Whether the arguments must satisfy the tool's accepted input schema. Without a usable schema the call is denied.",
        ),
        _ => None,
    }
}

pub(super) fn predicate_field_help(field: &str) -> Option<FieldHelp> {
    match field {
        "conditions" => field_help("Conditions", "All must hold together."),
        "on_deny" => field_help("Message", "What the agent is told, or the person who is asked."),
        "path" => field_help(
            "Path",
            "Where to look: `args`, `tool`, `server`, `grant`, `client` or `time`, then `.name`, `[\"any key\"]`, `[0]` or `[*]` for every element.",
        ),
        "op" => field_help("Operator", "How what is found is compared. A value of the wrong type denies the call."),
        "value" => field_help("Value", "What to compare with. Numbers compare exactly; null is no value."),
        _ => None,
    }
}

pub(super) fn limit_field_help(field: &str) -> Option<FieldHelp> {
    match field {
        "counter" => field_help("Counter", "The counter's name. Limits that name the same one share it."),
        "window" => field_help(
            "Window",
            "How long it counts: a word, seconds, or a number with `s`, `m`, `h` or `d`, up to 366 days.",
        ),
        "max" => {
            field_help("Maximum", "What the counter may reach in one window. Whole for calls; decimals with `amount`.")
        }
        "scope" => field_help("Scope", "Whose counter it is. Without it, each grant has its own."),
        "amount" => {
            field_help("Amount", "The number in the arguments to add instead of 1. Absent or negative: denied.")
        }
        "increment_from" => field_help("Amount", "Another name for `amount`."),
        "align" => field_help("Alignment", "When the window begins. Without it, by the calendar in UTC."),
        "on_deny" => field_help("Message", "What the agent is told when there is no room."),
        _ => None,
    }
}

pub(super) fn default_help(word: &str) -> &'static str {
    match word {
        "allow" => "It passes.",
        "deny" => "It is refused.",
        _ => "",
    }
}

pub(super) fn action_help(word: &str) -> &'static str {
    match word {
        "allow" => "Lets the call through.",
        "deny" => "Refuses each call; the tool stays listed.",
        "approve" => "Each call waits for a person.",
        "hide" => "Not listed, and not there when called.",
        _ => "",
    }
}

pub(super) fn category_help(word: &str) -> &'static str {
    match word {
        "read" => "Tools that look.",
        "write" => "Tools that change things that can be changed back.",
        "execute" => "Tools that run something.",
        "destructive" => "Tools that remove things for good.",
        "financial" => "Tools that move money.",
        "unknown" => "Tools that are not classified, or whose definition nobody has accepted.",
        _ => "",
    }
}

pub(super) fn scope_help(word: &str) -> &'static str {
    match word {
        "grant" => "One for each grant.",
        "session" => "One for each session of a client; for a client without sessions, its grant's.",
        "server" => "One for all grants of the server.",
        "organisation" => "One for all servers.",
        _ => "",
    }
}

pub(super) fn align_help(word: &str) -> &'static str {
    match word {
        "calendar" => "At the UTC minute, hour, midnight, Monday or first of the month.",
        "rolling" => "At each moment: no interval of the window's length holds more than `max`.",
        _ => "",
    }
}

pub(super) fn operator_help(word: &str) -> &'static str {
    match word {
        "eq" => "Equal to a string, number or boolean.",
        "neq" => "Not equal to a string, number or boolean.",
        "in" => "Equal to a member of a list.",
        "not_in" => "Equal to no member of a list.",
        "lt" => "A number below.",
        "lte" => "A number not above.",
        "gt" => "A number above.",
        "gte" => "A number not below.",
        "contains" => "A string in a string, or a string, number or boolean in a list.",
        "starts_with" => "The beginning of a string.",
        "ends_with" => "The end of a string.",
        "regex" => "Found anywhere in a string; write `^…$` for the whole. Syntax of Rust's `regex`.",
        "exists" => "Whether it is there and not null.",
        "length_lte" => "At most so many code points of a string, or elements of a list.",
        "subset_of" => "A list that is not empty, and all of whose elements are members.",
        "path_within" => "An absolute file path in this directory.",
        "host_in" => "An http(s) URL whose host is a member; `*.example.com` stands for all below.",
        _ => "",
    }
}
