//! Selects the files of a package that are read.

use super::entry_points::PackageJsonPaths;
use gatelodge_catalogue::SourceFile;

/// Maximum total size of a package's files.
const MAX_SOURCE_BYTES: usize = 24 << 20;

/// Maximum number of auxiliary files that are considered. The selected files are searched for imports of each of them.
const MAX_AUXILIARY_FILES: usize = 200;

/// Folders that contain tests.
const TEST_FOLDERS: [&str; 10] =
    ["test", "tests", "__tests__", "spec", "e2e", "fixtures", "__fixtures__", "__mocks__", "mocks", "benchmarks"];
/// Folders that contain examples or documentation.
const EXAMPLE_FOLDERS: [&str; 9] =
    ["example", "examples", "demo", "demos", "docs", "doc", "website", "templates", "template"];

/// Every package with tools contains at least one of these strings.
const SERVER_SIGNS: [&str; 12] = [
    "@modelcontextprotocol/",
    "tools/list",
    "ListToolsRequestSchema",
    "fastmcp",
    "mcp-framework",
    "mcp-handler",
    "@mastra/mcp",
    "mcp-use",
    "xmcp",
    "tmcp",
    "mcp-ts-core",
    "McpServer",
];

/// Every file that defines tools contains at least one of these strings.
const TOOL_SIGNS: [&str; 8] =
    ["registerTool", ".tool(", "addTool", "inputSchema", "ListTools", "tools/list", "registerAppTool", "Tool"];

/// Returns whether the package uses MCP at all. Test files are searched only if they have been selected.
pub(super) fn has_mcp_server(files: &[SourceFile<'_>], chosen: &[SourceFile<'_>]) -> bool {
    let speaks = |file: &SourceFile<'_>| SERVER_SIGNS.iter().any(|sign| file.text.contains(sign));
    // `package.json` names the dependencies.
    let counts = |file: &SourceFile<'_>| match is_source(file) {
        true => !is_in_folder(file.path, &TEST_FOLDERS),
        false => is_package_file(file.path, "package.json"),
    };
    chosen.iter().any(speaks) || files.iter().any(|file| counts(file) && speaks(file))
}

/// Returns whether a path ends in the given file name and is not inside `node_modules`.
pub(super) fn is_package_file(path: &str, name: &str) -> bool {
    path.rsplit('/').next() == Some(name) && !path.split('/').any(|folder| folder == "node_modules")
}

/// The selected files.
pub(super) struct SelectedFiles<'a> {
    pub files: Vec<SourceFile<'a>>,
    /// Number of files left out because of the size limit.
    pub excluded_count: usize,
}

/// Selects the files to read, starting with those that mention tools. Auxiliary files are selected only if they are
/// entry points or are imported.
pub(super) fn select_files<'a>(files: &[SourceFile<'a>], named: &PackageJsonPaths) -> SelectedFiles<'a> {
    let readable = files.iter().copied().filter(is_source);
    let (mut auxiliary, mut chosen): (Vec<SourceFile<'a>>, Vec<SourceFile<'a>>) =
        readable.partition(|file| is_auxiliary(file.path) && !named.contains(file.path));
    auxiliary.sort_by_key(|file| !mentions_tools(file));
    auxiliary.truncate(MAX_AUXILIARY_FILES);
    let mut from = 0;
    while let Some(asking) = chosen.get(from).copied() {
        let (asked, rest) = auxiliary.into_iter().partition(|file| has_import_of(asking, file.path));
        chosen.extend::<Vec<_>>(asked);
        (auxiliary, from) = (rest, from + 1);
    }
    chosen.sort_by_key(|file| (!mentions_tools(file), file.path));
    let mut texts = std::collections::HashSet::new();
    chosen.retain(|file| texts.insert(file.text) || has_relative_import(file.text));
    let all = chosen.len();
    let mut room = MAX_SOURCE_BYTES;
    chosen.retain(|file| {
        let fits = file.text.len() <= room;
        room -= if fits { file.text.len() } else { 0 };
        fits
    });
    SelectedFiles { excluded_count: all - chosen.len(), files: chosen }
}

fn mentions_tools(file: &SourceFile<'_>) -> bool {
    TOOL_SIGNS.iter().any(|sign| file.text.contains(sign))
}

/// Returns whether a source file has relative imports. If it does, an identical file in another folder is not the same
/// module.
fn has_relative_import(text: &str) -> bool {
    ["\"./", "'./", "`./", "\"../", "'../", "`../"].iter().any(|start| text.contains(start))
}

/// Returns whether a file imports the file at `path`. Only the end of the import path is compared: the file name if
/// both files are in the same folder, otherwise the folder and the file name.
fn has_import_of(asking: SourceFile<'_>, path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let last = folder.rsplit('/').next().unwrap_or(folder);
    let is_here = asking.path.rsplit_once('/').is_some_and(|(own, _)| own == folder);
    let written = if is_here { format!("./{stem}") } else { format!("/{last}/{stem}") };
    let ends = |rest: &str| rest.starts_with(['"', '\'', '`', '.']);
    let is_named =
        asking.text.match_indices(&written).any(|(at, _)| asking.text.get(at + written.len()..).is_some_and(ends));
    // A folder stands for its index file.
    is_named
        || (stem == "index"
            && asking.text.match_indices(&format!("/{last}")).any(|(at, own)| {
                asking.text.get(at + own.len()..).is_some_and(|rest| rest.starts_with(['"', '\'', '`']))
            }))
}

fn is_source(file: &SourceFile<'_>) -> bool {
    let SourceFile { path, text } = file;
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let typed = [".d.ts", ".d.mts", ".d.cts"].iter().any(|ending| name.ends_with(ending));
    let read = match ending {
        Some(ending) => matches!(ending, "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx"),
        // An executable script.
        None => text.starts_with("#!"),
    };
    let tests = name.contains(".test.") || name.contains(".spec.");
    read && !typed && !tests && !path.split('/').any(|folder| folder == "node_modules")
}

fn is_auxiliary(path: &str) -> bool {
    is_in_folder(path, &TEST_FOLDERS) || is_in_folder(path, &EXAMPLE_FOLDERS)
}

fn is_in_folder(path: &str, names: &[&str]) -> bool {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    folders.split('/').any(|folder| names.contains(&folder))
}
