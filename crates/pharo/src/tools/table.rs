//! The table of tools. Names, parameters and defaults are those that agents know from the interop server's own.

use super::{Effect, Gives, Kind, Parameter, Tool, Verb};

const fn text(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, sent_as: name, kind: Kind::Text, description }
}

/// A tool that only looks; its title and description are given where it stands.
const fn tool(name: &'static str, endpoint: &'static str, gives: Gives, parameters: &'static [Parameter]) -> Tool {
    let (verb, effect) = (Verb::Get, Effect::Reads);
    Tool { name, title: "", description: "", parameters, endpoint, verb, effect, gives, is_long: false }
}

const CLASS: Parameter = text("class_name", "The exact name of the class, such as `OrderedCollection`.");
const PACKAGE: Parameter = text("package_name", "The exact name of the package, such as `Collections-Sequenceable`.");
const SELECTOR: Parameter = text("method_name", "The exact selector, such as `at:put:`.");

/// A directory where packages lie. The default is the interop server's.
const PATH: Parameter = Parameter {
    name: "path",
    sent_as: "path",
    kind: Kind::TextOr("/tmp"),
    description: "The directory on the machine of the image.",
};

const CLASS_SIDE: Parameter = Parameter {
    name: "is_class_method",
    sent_as: "is_class_method",
    kind: Kind::Flag(false),
    description: "Whether it is a method of the class side.",
};

const SYMBOL: Parameter = Parameter {
    name: "method_name_or_symbol",
    sent_as: "program_symbol",
    kind: Kind::Text,
    description: "The exact selector or symbol.",
};

const GROUPS: Parameter = Parameter {
    name: "load_groups",
    sent_as: "load_groups",
    kind: Kind::MaybeText,
    description: "The groups to load, with commas between them; without it the default group.",
};

const TARGET: Parameter = Parameter {
    name: "target_type",
    sent_as: "target_type",
    kind: Kind::TextOr("world"),
    description: "What to describe: `world` for morphs, `spec` for Spec windows, `roassal` for canvases.",
};

const PICTURE: Parameter = Parameter {
    name: "capture_screenshot",
    sent_as: "capture_screenshot",
    kind: Kind::Flag(true),
    description: "Whether to take a picture.",
};

const SETTINGS: Parameter = Parameter {
    name: "settings",
    sent_as: "settings",
    kind: Kind::Object,
    description: "The settings to change, by name; snake_case is taken too.",
};

/// All tools, in the order in which they are listed.
pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        title: "Evaluate code",
        description: "Runs Smalltalk code in the image and gives what it answers. \
            The code may do anything the image can: change classes, write files, open connections. \
            A value that has no form in JSON is not given; send it `printString`.",
        verb: Verb::Post,
        effect: Effect::Runs,
        ..tool("eval", "/eval", Gives::Anything, &[text("code", "Smalltalk statements, such as `3 + 4`.")])
    },
    Tool {
        title: "Source of a class",
        description: "Gives the definition of a class and all its methods, in the Tonel format.",
        ..tool("get_class_source", "/get-class-source", Gives::Text, &[CLASS])
    },
    Tool {
        title: "Source of a method",
        description: "Gives the source of one method of a class.",
        ..tool("get_method_source", "/get-method-source", Gives::Text, &[CLASS, SELECTOR, CLASS_SIDE])
    },
    Tool {
        title: "Comment of a class",
        description: "Gives the comment that documents a class.",
        ..tool("get_class_comment", "/get-class-comment", Gives::Text, &[CLASS])
    },
    Tool {
        title: "Find classes",
        description: "Lists the classes whose names begin with a text; case does not matter, there are no wildcards.",
        ..tool(
            "search_classes_like",
            "/search-classes-like",
            Gives::Names,
            &[text("class_name_query", "How the names begin.")],
        )
    },
    Tool {
        title: "Find selectors",
        description: "Lists the selectors that begin with a text; there are no wildcards.",
        ..tool(
            "search_methods_like",
            "/search-methods-like",
            Gives::Names,
            &[text("method_name_query", "How the selectors begin.")],
        )
    },
    Tool {
        title: "Find traits",
        description: "Lists the traits whose names begin with a text; case does not matter, there are no wildcards.",
        ..tool(
            "search_traits_like",
            "/search-traits-like",
            Gives::Names,
            &[text("trait_name_query", "How the names begin.")],
        )
    },
    Tool {
        title: "Implementors of a selector",
        description: "Lists the methods that implement a selector, with their classes and packages.",
        ..tool("search_implementors", "/search-implementors", Gives::Methods, &[SELECTOR])
    },
    Tool {
        title: "References to a selector or symbol",
        description: "Lists the methods that send a selector or name a symbol, with their classes and packages.",
        ..tool("search_references", "/search-references", Gives::Methods, &[SYMBOL])
    },
    Tool {
        title: "References to a class",
        description: "Lists the methods that name a class, with their classes and packages.",
        ..tool("search_references_to_class", "/search-references-to-class", Gives::Methods, &[CLASS])
    },
    Tool {
        title: "List packages",
        description: "Lists all packages of the image.",
        ..tool("list_packages", "/list-packages", Gives::Names, &[])
    },
    Tool {
        title: "List classes of a package",
        description: "Lists the classes that a package defines.",
        ..tool("list_classes", "/list-classes", Gives::Names, &[PACKAGE])
    },
    Tool {
        title: "List classes that a package extends",
        description: "Lists the classes of other packages to which a package adds methods.",
        ..tool("list_extended_classes", "/list-extended-classes", Gives::Names, &[PACKAGE])
    },
    Tool {
        title: "List methods of a package",
        description: "Lists the methods of a package, each as `Class>>#selector`.",
        ..tool("list_methods", "/list-methods", Gives::Names, &[PACKAGE])
    },
    Tool {
        title: "Export a package",
        description: "Writes a package as Tonel files below a directory of the image's machine, \
            over files of the same name.",
        effect: Effect::Exports,
        is_long: true,
        ..tool("export_package", "/export-package", Gives::Text, &[PACKAGE, PATH])
    },
    Tool {
        title: "Import a package",
        description: "Loads a package from Tonel files below a directory of the image's machine. \
            Loading replaces classes and methods of the same name, and runs code of the package.",
        effect: Effect::Runs,
        is_long: true,
        ..tool("import_package", "/import-package", Gives::Text, &[PACKAGE, PATH])
    },
    Tool {
        title: "Install a project",
        description: "Fetches a project and what it depends on from a repository, and loads it with Metacello. \
            Its code runs in the image. This may take minutes.",
        effect: Effect::Runs,
        is_long: true,
        ..tool(
            "install_project",
            "/install-project",
            Gives::Text,
            &[
                text("project_name", "The name of the project's baseline, without `BaselineOf`."),
                text("repository_url", "Where it is, such as `github://owner/project:main/src`."),
                GROUPS,
            ],
        )
    },
    Tool {
        title: "Run the tests of a package",
        description: "Runs all test classes of a package and gives counts, failures and errors. \
            Tests are code: they may do anything the image can. This may take minutes.",
        effect: Effect::Runs,
        is_long: true,
        ..tool("run_package_test", "/run-package-test", Gives::Text, &[PACKAGE])
    },
    Tool {
        title: "Run the tests of a class",
        description: "Runs one test class and gives counts, failures and errors. \
            Tests are code: they may do anything the image can. This may take minutes.",
        effect: Effect::Runs,
        is_long: true,
        ..tool("run_class_test", "/run-class-test", Gives::Text, &[CLASS])
    },
    Tool {
        title: "Read the screen",
        description: "Describes what the image shows, its windows and their parts, \
            with a picture of the screen where it can be read. \
            Taking the picture writes a PNG file on the image's machine.",
        effect: Effect::Captures,
        ..tool("read_screen", "/read-screen", Gives::Object, &[TARGET, PICTURE])
    },
    Tool {
        title: "Settings",
        description: "Gives the settings of the interop server in the image.",
        ..tool("get_settings", "/get-settings", Gives::Object, &[])
    },
    Tool {
        title: "Change settings",
        description: "Changes settings of the interop server in the image. \
            Known are `stackSize` (how deep stack traces go) and `screenshotDir` (where pictures are written).",
        verb: Verb::Post,
        effect: Effect::Sets,
        ..tool("apply_settings", "/apply-settings", Gives::Text, &[SETTINGS])
    },
];
