"""A minimal FastMCP server with the same 22 tools. They do not contact an image: each returns a fixed object."""

from fastmcp import FastMCP

mcp = FastMCP("pharo-smalltalk-interop")


def done() -> dict:
    return {"success": True, "result": ["Kernel", "Collections-Sequenceable"]}


@mcp.tool("eval")
def eval_code(code: str) -> dict:
    """Runs Smalltalk code in the image and gives what it answers."""
    return done()


@mcp.tool
def get_class_source(class_name: str) -> dict:
    """Gives the definition of a class and all its methods."""
    return done()


@mcp.tool
def get_method_source(class_name: str, method_name: str, is_class_method: bool = False) -> dict:
    """Gives the source of one method of a class."""
    return done()


@mcp.tool
def get_class_comment(class_name: str) -> dict:
    """Gives the comment that documents a class."""
    return done()


@mcp.tool
def search_classes_like(class_name_query: str) -> dict:
    """Lists the classes whose names begin with a text."""
    return done()


@mcp.tool
def search_methods_like(method_name_query: str) -> dict:
    """Lists the selectors that begin with a text."""
    return done()


@mcp.tool
def search_traits_like(trait_name_query: str) -> dict:
    """Lists the traits whose names begin with a text."""
    return done()


@mcp.tool
def search_implementors(method_name: str) -> dict:
    """Lists the methods that implement a selector."""
    return done()


@mcp.tool
def search_references(method_name_or_symbol: str) -> dict:
    """Lists the methods that send a selector or name a symbol."""
    return done()


@mcp.tool
def search_references_to_class(class_name: str) -> dict:
    """Lists the methods that name a class."""
    return done()


@mcp.tool
def list_packages() -> dict:
    """Lists all packages of the image."""
    return done()


@mcp.tool
def list_classes(package_name: str) -> dict:
    """Lists the classes that a package defines."""
    return done()


@mcp.tool
def list_extended_classes(package_name: str) -> dict:
    """Lists the classes of other packages to which a package adds methods."""
    return done()


@mcp.tool
def list_methods(package_name: str) -> dict:
    """Lists the methods of a package."""
    return done()


@mcp.tool
def export_package(package_name: str, path: str = "/tmp") -> dict:
    """Writes a package as Tonel files below a directory."""
    return done()


@mcp.tool
def import_package(package_name: str, path: str = "/tmp") -> dict:
    """Loads a package from Tonel files below a directory."""
    return done()


@mcp.tool
def install_project(project_name: str, repository_url: str, load_groups: str | None = None) -> dict:
    """Fetches a project from a repository and loads it."""
    return done()


@mcp.tool
def run_package_test(package_name: str) -> dict:
    """Runs all test classes of a package."""
    return done()


@mcp.tool
def run_class_test(class_name: str) -> dict:
    """Runs one test class."""
    return done()


@mcp.tool
def read_screen(target_type: str = "world", capture_screenshot: bool = True) -> dict:
    """Describes what the image shows."""
    return done()


@mcp.tool
def get_settings() -> dict:
    """Gives the settings of the interop server in the image."""
    return done()


@mcp.tool
def apply_settings(settings: dict) -> dict:
    """Changes settings of the interop server in the image."""
    return done()


if __name__ == "__main__":
    mcp.run(show_banner=False)
