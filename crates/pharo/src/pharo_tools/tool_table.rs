//! The table of tools. Names, parameters and defaults match the interop project's own MCP server, which agents may
//! already know.

use super::{HttpVerb, PharoParameter, PharoParameterType, PharoTool, ReturnedValueKind, ToolEffect};

const fn text_parameter(name: &'static str, description: &'static str) -> PharoParameter {
    PharoParameter { name, sent_as: name, kind: PharoParameterType::Text, description }
}

/// Returns a read-only tool with an empty title and description, which each entry in the table then sets.
const fn read_only_tool(
    name: &'static str,
    endpoint: &'static str,
    gives: ReturnedValueKind,
    parameters: &'static [PharoParameter],
) -> PharoTool {
    let (verb, effect) = (HttpVerb::Get, ToolEffect::ReadsOnly);
    PharoTool {
        name,
        title: "",
        description: "",
        parameters,
        endpoint,
        verb,
        effect,
        result_kind: gives,
        is_long_running: false,
    }
}

const CLASS: PharoParameter = text_parameter("class_name", "The exact name of the class, such as `OrderedCollection`.");
const PACKAGE: PharoParameter =
    text_parameter("package_name", "The exact name of the package, such as `Collections-Sequenceable`.");
const SELECTOR: PharoParameter = text_parameter("method_name", "The exact selector, such as `at:put:`.");

/// Parameter for a directory that contains packages. The default is the same as the interop server's.
const PATH: PharoParameter = PharoParameter {
    name: "path",
    sent_as: "path",
    kind: PharoParameterType::TextWithDefault("/tmp"),
    description: "The directory on the machine of the image.",
};

const CLASS_SIDE: PharoParameter = PharoParameter {
    name: "is_class_method",
    sent_as: "is_class_method",
    kind: PharoParameterType::Flag(false),
    description: "Whether it is a method of the class side.",
};

const SYMBOL: PharoParameter = PharoParameter {
    name: "method_name_or_symbol",
    sent_as: "program_symbol",
    kind: PharoParameterType::Text,
    description: "The exact selector or symbol.",
};

const GROUPS: PharoParameter = PharoParameter {
    name: "load_groups",
    sent_as: "load_groups",
    kind: PharoParameterType::OptionalText,
    description: "The groups to load, with commas between them; without it the default group.",
};

const TARGET: PharoParameter = PharoParameter {
    name: "target_type",
    sent_as: "target_type",
    kind: PharoParameterType::TextWithDefault("world"),
    description: "What to describe: `world` for morphs, `spec` for Spec windows, `roassal` for canvases.",
};

const PICTURE: PharoParameter = PharoParameter {
    name: "capture_screenshot",
    sent_as: "capture_screenshot",
    kind: PharoParameterType::Flag(true),
    description: "Whether to take a picture.",
};

const SETTINGS: PharoParameter = PharoParameter {
    name: "settings",
    sent_as: "settings",
    kind: PharoParameterType::Object,
    description: "The settings to change, by name; snake_case is taken too.",
};

/// All tools, in the order of `tools/list`.
pub(crate) const TOOLS: &[PharoTool] = &[
    PharoTool {
        title: "Evaluate code",
        description: "Runs Smalltalk code in the image and gives what it answers. \
            The code may do anything the image can: change classes, write files, open connections. \
            A value that has no form in JSON is not given; send it `printString`.",
        verb: HttpVerb::Post,
        effect: ToolEffect::RunsCode,
        ..read_only_tool(
            "eval",
            "/eval",
            ReturnedValueKind::Anything,
            &[text_parameter("code", "Smalltalk statements, such as `3 + 4`.")],
        )
    },
    PharoTool {
        title: "Source of a class",
        description: "Gives the definition of a class and all its methods, in the Tonel format.",
        ..read_only_tool("get_class_source", "/get-class-source", ReturnedValueKind::Text, &[CLASS])
    },
    PharoTool {
        title: "Source of a method",
        description: "Gives the source of one method of a class.",
        ..read_only_tool(
            "get_method_source",
            "/get-method-source",
            ReturnedValueKind::Text,
            &[CLASS, SELECTOR, CLASS_SIDE],
        )
    },
    PharoTool {
        title: "Comment of a class",
        description: "Gives the comment that documents a class.",
        ..read_only_tool("get_class_comment", "/get-class-comment", ReturnedValueKind::Text, &[CLASS])
    },
    PharoTool {
        title: "Find classes",
        description: "Lists the classes whose names begin with a text; case does not matter, there are no wildcards.",
        ..read_only_tool(
            "search_classes_like",
            "/search-classes-like",
            ReturnedValueKind::Names,
            &[text_parameter("class_name_query", "How the names begin.")],
        )
    },
    PharoTool {
        title: "Find selectors",
        description: "Lists the selectors that begin with a text; there are no wildcards.",
        ..read_only_tool(
            "search_methods_like",
            "/search-methods-like",
            ReturnedValueKind::Names,
            &[text_parameter("method_name_query", "How the selectors begin.")],
        )
    },
    PharoTool {
        title: "Find traits",
        description: "Lists the traits whose names begin with a text; case does not matter, there are no wildcards.",
        ..read_only_tool(
            "search_traits_like",
            "/search-traits-like",
            ReturnedValueKind::Names,
            &[text_parameter("trait_name_query", "How the names begin.")],
        )
    },
    PharoTool {
        title: "Implementors of a selector",
        description: "Lists the methods that implement a selector, with their classes and packages.",
        ..read_only_tool("search_implementors", "/search-implementors", ReturnedValueKind::Methods, &[SELECTOR])
    },
    PharoTool {
        title: "References to a selector or symbol",
        description: "Lists the methods that send a selector or name a symbol, with their classes and packages.",
        ..read_only_tool("search_references", "/search-references", ReturnedValueKind::Methods, &[SYMBOL])
    },
    PharoTool {
        title: "References to a class",
        description: "Lists the methods that name a class, with their classes and packages.",
        ..read_only_tool(
            "search_references_to_class",
            "/search-references-to-class",
            ReturnedValueKind::Methods,
            &[CLASS],
        )
    },
    PharoTool {
        title: "List packages",
        description: "Lists all packages of the image.",
        ..read_only_tool("list_packages", "/list-packages", ReturnedValueKind::Names, &[])
    },
    PharoTool {
        title: "List classes of a package",
        description: "Lists the classes that a package defines.",
        ..read_only_tool("list_classes", "/list-classes", ReturnedValueKind::Names, &[PACKAGE])
    },
    PharoTool {
        title: "List classes that a package extends",
        description: "Lists the classes of other packages to which a package adds methods.",
        ..read_only_tool("list_extended_classes", "/list-extended-classes", ReturnedValueKind::Names, &[PACKAGE])
    },
    PharoTool {
        title: "List methods of a package",
        description: "Lists the methods of a package, each as `Class>>#selector`.",
        ..read_only_tool("list_methods", "/list-methods", ReturnedValueKind::Names, &[PACKAGE])
    },
    PharoTool {
        title: "Export a package",
        description: "Writes a package as Tonel files below a directory of the image's machine, \
            over files of the same name.",
        effect: ToolEffect::WritesFiles,
        is_long_running: true,
        ..read_only_tool("export_package", "/export-package", ReturnedValueKind::Text, &[PACKAGE, PATH])
    },
    PharoTool {
        title: "Import a package",
        description: "Loads a package from Tonel files below a directory of the image's machine. \
            Loading replaces classes and methods of the same name, and runs code of the package.",
        effect: ToolEffect::RunsCode,
        is_long_running: true,
        ..read_only_tool("import_package", "/import-package", ReturnedValueKind::Text, &[PACKAGE, PATH])
    },
    PharoTool {
        title: "Install a project",
        description: "Fetches a project and what it depends on from a repository, and loads it with Metacello. \
            Its code runs in the image. This may take minutes.",
        effect: ToolEffect::RunsCode,
        is_long_running: true,
        ..read_only_tool(
            "install_project",
            "/install-project",
            ReturnedValueKind::Text,
            &[
                text_parameter("project_name", "The name of the project's baseline, without `BaselineOf`."),
                text_parameter("repository_url", "Where it is, such as `github://owner/project:main/src`."),
                GROUPS,
            ],
        )
    },
    PharoTool {
        title: "Run the tests of a package",
        description: "Runs all test classes of a package and gives counts, failures and errors. \
            Tests are code: they may do anything the image can. This may take minutes.",
        effect: ToolEffect::RunsCode,
        is_long_running: true,
        ..read_only_tool("run_package_test", "/run-package-test", ReturnedValueKind::Text, &[PACKAGE])
    },
    PharoTool {
        title: "Run the tests of a class",
        description: "Runs one test class and gives counts, failures and errors. \
            Tests are code: they may do anything the image can. This may take minutes.",
        effect: ToolEffect::RunsCode,
        is_long_running: true,
        ..read_only_tool("run_class_test", "/run-class-test", ReturnedValueKind::Text, &[CLASS])
    },
    PharoTool {
        title: "Read the screen",
        description: "Describes what the image shows, its windows and their parts, \
            with a picture of the screen where it can be read. \
            Taking a picture writes a PNG file on the image's machine.",
        effect: ToolEffect::CapturesScreen,
        ..read_only_tool("read_screen", "/read-screen", ReturnedValueKind::Object, &[TARGET, PICTURE])
    },
    PharoTool {
        title: "Settings",
        description: "Gives the settings of the interop server in the image.",
        ..read_only_tool("get_settings", "/get-settings", ReturnedValueKind::Object, &[])
    },
    PharoTool {
        title: "Change settings",
        description: "Changes settings of the interop server in the image. \
            Known are `stackSize` (how deep stack traces go) and `screenshotDir` (where pictures are written).",
        verb: HttpVerb::Post,
        effect: ToolEffect::ChangesSettings,
        ..read_only_tool("apply_settings", "/apply-settings", ReturnedValueKind::Text, &[SETTINGS])
    },
];
