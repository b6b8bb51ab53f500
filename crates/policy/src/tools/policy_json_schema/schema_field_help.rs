//! Help texts that editors show for each field and each predefined value.

/// The help text for one field.
pub(super) struct SchemaFieldHelp {
    pub title: &'static str,
    pub text: &'static str,
}

pub(super) const POLICY_DESCRIPTION: &str =
    "What agents may do on one server. Policies are attached to grants. A call that cannot be evaluated is denied.";

const fn field_help(title: &'static str, text: &'static str) -> Option<SchemaFieldHelp> {
    Some(SchemaFieldHelp { title, text })
}

pub(super) fn policy_field_help(field: &str) -> Option<SchemaFieldHelp> {
    match field {
        "version" => field_help("Version", "The version of the language. Only \"1\" is known."),
        "description" => field_help("Description", "What the policy is for. It has no effect on decisions."),
        "$schema" => field_help("Schema", "Where editors find this schema. It has no effect on decisions."),
        "default" => field_help("Default", "Decision for tools, resources and prompts that no other rule matches."),
        "hide" => field_help("Hidden tools", "Names or globs of tools that are neither listed nor callable."),
        "all_tools" => {
            field_help("All tools", "A rule block that applies to every tool call, in addition to the tool's own.")
        }
        "categories" => field_help(
            "Categories",
            "Rules for tools that `tools` does not match, by category. A tool whose category is named here counts as listed.",
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
            "Rules for other methods; `x/*` matches all that start with `x/`. If this field is present, methods that it does not name are denied.",
        ),
        "client_requests" => field_help("Requests to the client", "Requests that the server may send to the client."),
        "time_zone" => field_help(
            "Time zone",
            "Time zone of `time.*` conditions, by its exact IANA name. Default: UTC. Limits always use UTC.",
        ),
        _ => None,
    }
}

pub(super) fn block_field_help(field: &str) -> Option<SchemaFieldHelp> {
    match field {
        "action" => field_help("Action", "What happens to a call that passes all checks of the block."),
        "reason" => field_help("Reason", "Shown to the agent with `deny`, to the approver with `approve`."),
        "require" => field_help(
            "Require",
            "Each of these must hold, or the call is denied. A condition on an absent value does not hold.",
        ),
        "deny_if" => field_help("Deny if", "None of these may hold. Empty `conditions` always hold."),
        "approve_if" => field_help("Approve if", "If one of these holds, the call requires approval."),
        "limits" => field_help(
            "Limits",
            "Maximum amounts per window. No limit may be exceeded; either all are charged or none.",
        ),
        "rate_limit" => {
            field_help("Rate limit", "Short for one limit on calls of this tool: `10/minute`, or an object.")
        }
        "validate_arguments" => field_help(
            "Validate arguments",
            "Whether the arguments must satisfy the tool's accepted input schema. Without a usable schema, the call is denied.",
        ),
        _ => None,
    }
}

pub(super) fn predicate_field_help(field: &str) -> Option<SchemaFieldHelp> {
    match field {
        "conditions" => field_help("Conditions", "All must hold together."),
        "on_deny" => field_help("Message", "Message for the agent or the approver."),
        "path" => field_help(
            "Path",
            "Path of the value: `args`, `tool`, `server`, `grant`, `client` or `time`, then `.name`, `[\"any key\"]`, `[0]` or `[*]` for every element.",
        ),
        "op" => field_help("Operator", "How the value is compared. A value of the wrong type denies the call."),
        "value" => field_help("Value", "What to compare with. Numbers compare exactly; null is not allowed."),
        _ => None,
    }
}

pub(super) fn limit_field_help(field: &str) -> Option<SchemaFieldHelp> {
    match field {
        "counter" => field_help("Counter", "Name of the counter. Limits with the same name share it."),
        "window" => field_help(
            "Window",
            "Length of the window: a name, seconds, or a number with `s`, `m`, `h` or `d`, up to 366 days.",
        ),
        "max" => field_help(
            "Maximum",
            "Maximum of the counter in one window. A whole number for calls; decimals are allowed with `amount`.",
        ),
        "scope" => field_help("Scope", "What shares one counter. Default: each grant has its own."),
        "amount" => field_help(
            "Amount",
            "Path of a number in the arguments to add instead of 1. If it is absent or negative, the call is denied.",
        ),
        "increment_from" => field_help("Amount", "Another name for `amount`."),
        "align" => field_help("Alignment", "When the window starts. Default: by the calendar in UTC."),
        "on_deny" => field_help("Message", "Message for the agent when the limit is reached."),
        _ => None,
    }
}

pub(super) fn default_help(word: &str) -> &'static str {
    match word {
        "allow" => "Allowed.",
        "deny" => "Denied.",
        _ => "",
    }
}

pub(super) fn action_help(word: &str) -> &'static str {
    match word {
        "allow" => "Allows the call.",
        "deny" => "Denies every call; the tool stays listed.",
        "approve" => "Every call requires approval.",
        "hide" => "Neither listed nor callable.",
        _ => "",
    }
}

pub(super) fn category_help(word: &str) -> &'static str {
    match word {
        "read" => "Tools that only read.",
        "write" => "Tools whose changes can be undone.",
        "execute" => "Tools that run code or commands.",
        "destructive" => "Tools that delete or overwrite irreversibly.",
        "financial" => "Tools that move money.",
        "unknown" => "Tools that are not classified, or whose definition has not been accepted.",
        _ => "",
    }
}

pub(super) fn scope_help(word: &str) -> &'static str {
    match word {
        "grant" => "One counter per grant.",
        "session" => "One counter per client session; clients without sessions use their grant's.",
        "server" => "One counter for all grants of the server.",
        "organisation" => "One counter for all servers.",
        _ => "",
    }
}

pub(super) fn align_help(word: &str) -> &'static str {
    match word {
        "calendar" => "Starts at the UTC minute, hour, midnight, Monday or first of the month.",
        "rolling" => "Sliding window: no interval of its length contains more than `max`.",
        _ => "",
    }
}
