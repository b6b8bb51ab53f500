//! Locations of client configurations. Everything that depends on the machine is passed as a parameter.

use std::path::{Path, PathBuf};

use crate::client_profiles::ClientProfile;

/// Key under which Claude Code stores the servers for each project directory.
pub const CLAUDE_PROJECTS_KEY: &str = "projects";

/// The directory that a path is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseDirectory {
    /// The user's home directory.
    Home,
    /// The system's configuration directory: `~/.config`, `~/Library/Application Support`, `%APPDATA%`.
    Config,
    /// `~/.config` on every system.
    Xdg,
    /// `%LOCALAPPDATA%`.
    LocalData,
    /// Claude Code's configuration directory: `CLAUDE_CONFIG_DIR`, or the home directory.
    Claude,
    /// A project directory.
    Project,
}

/// Path of a file relative to a base directory, with a different location for Windows if needed.
#[derive(Debug, Clone, Copy)]
pub struct ClientConfigPath {
    /// The base directory.
    pub base: BaseDirectory,
    /// Path below the base directory.
    pub path: &'static str,
    /// Base directory and path on Windows, if different.
    pub windows: Option<(BaseDirectory, &'static str)>,
}

/// Operating systems that clients run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatingSystem {
    /// Linux and other Unix systems.
    Linux,
    /// macOS.
    Mac,
    /// Windows.
    Windows,
}

/// A user's directories, and optionally a project directory.
#[derive(Debug, Clone)]
pub struct UserDirectories {
    system: OperatingSystem,
    home: PathBuf,
    xdg: PathBuf,
    app_data: PathBuf,
    local_data: PathBuf,
    claude: PathBuf,
    project: Option<PathBuf>,
}

/// A client's configuration file, and the key path of a server table in it.
#[derive(Debug, Clone)]
pub struct ClientConfigLocation {
    /// The client.
    pub client: &'static ClientProfile,
    /// The file.
    pub file: PathBuf,
    /// Keys that lead to the table of servers.
    pub servers_path: Vec<String>,
}

impl ClientConfigLocation {
    /// Returns the project directory that the servers belong to, or `None` if they are not specific to one project in
    /// the file.
    pub fn project_directory(&self) -> Option<&str> {
        match self.servers_path.as_slice() {
            [first, directory, _] if first == CLAUDE_PROJECTS_KEY => Some(directory),
            _ => None,
        }
    }
}

impl OperatingSystem {
    /// Returns the operating system that this program was built for.
    pub fn current() -> Self {
        if cfg!(target_os = "windows") {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::Mac
        } else {
            Self::Linux
        }
    }
}

impl UserDirectories {
    /// Returns the default directories below `home`, ignoring the environment.
    pub fn under_home(system: OperatingSystem, home: PathBuf, project: Option<PathBuf>) -> Self {
        Self::of(system, home, project, &|_| None)
    }

    /// Returns a user's directories, including those set by environment variables, which `environment` looks up.
    pub fn of(
        system: OperatingSystem,
        home: PathBuf,
        project: Option<PathBuf>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let variable = |name: &str| environment(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        Self {
            system,
            xdg: variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            app_data: variable("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming")),
            local_data: variable("LOCALAPPDATA").unwrap_or_else(|| home.join("AppData/Local")),
            claude: variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.clone()),
            home,
            project,
        }
    }

    /// Returns the full path of a file, or `None` for a project file if there is no project.
    fn resolve_path(&self, config_path: &ClientConfigPath) -> Option<PathBuf> {
        let (base, path) = match config_path.windows {
            Some(windows) if self.system == OperatingSystem::Windows => windows,
            _ => (config_path.base, config_path.path),
        };
        let base = match base {
            BaseDirectory::Home => &self.home,
            BaseDirectory::Config => &self.config_directory(),
            BaseDirectory::Xdg => &self.xdg,
            BaseDirectory::LocalData => &self.local_data,
            BaseDirectory::Claude => &self.claude,
            BaseDirectory::Project => self.project.as_deref()?,
        };
        Some(base.join(path))
    }

    fn config_directory(&self) -> PathBuf {
        match self.system {
            OperatingSystem::Linux => self.xdg.clone(),
            OperatingSystem::Mac => self.home.join("Library/Application Support"),
            OperatingSystem::Windows => self.app_data.clone(),
        }
    }

    /// Returns all locations where a client's servers may be configured, most common first.
    pub fn config_locations(&self, client: &'static ClientProfile) -> Vec<ClientConfigLocation> {
        let root = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut locations = Vec::new();
        for config_path in client.config_paths {
            let Some(file) = self.resolve_path(config_path) else { continue };
            locations.push(ClientConfigLocation {
                client,
                file: file.clone(),
                servers_path: root(client.servers_path),
            });
            if let (BaseDirectory::Claude, Some(project)) = (config_path.base, &self.project) {
                // Claude Code stores a user's servers for one project directory in the user's file.
                let project = project.display().to_string();
                let root = vec![CLAUDE_PROJECTS_KEY.to_owned(), project, "mcpServers".to_owned()];
                locations.push(ClientConfigLocation { client, file, servers_path: root });
            }
        }
        locations
    }
}

/// Formats a path with `~` for the home directory.
pub fn shorten_home(path: &Path, home: &Path) -> String {
    match path.strip_prefix(home) {
        Ok(rest) => format!("~/{}", rest.display()),
        Err(_) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find_client;

    fn files(system: OperatingSystem, id: &str, environment: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let directories = UserDirectories::of(system, "/h".into(), Some("/p".into()), environment);
        directories
            .config_locations(find_client(id).expect("a client"))
            .iter()
            .map(|location| location.file.display().to_string())
            .collect()
    }

    #[test]
    fn paths_follow_the_conventions_of_each_system() {
        let none: &dyn Fn(&str) -> Option<String> = &|_| None;
        assert_eq!(
            files(OperatingSystem::Linux, "vscode", none),
            ["/p/.vscode/mcp.json", "/h/.config/Code/User/mcp.json"]
        );
        let expected = "/h/Library/Application Support/Claude/claude_desktop_config.json";
        assert_eq!(files(OperatingSystem::Mac, "claude-desktop", none), [expected]);
        let expected = "/h/AppData/Roaming/Claude/claude_desktop_config.json";
        assert_eq!(files(OperatingSystem::Windows, "claude-desktop", none), [expected]);
        let expected = "/h/AppData/Roaming/Block/goose/config/config.yaml";
        assert_eq!(files(OperatingSystem::Windows, "goose", none), [expected]);
        assert_eq!(files(OperatingSystem::Mac, "goose", none), ["/h/.config/goose/config.yaml"]);
    }

    #[test]
    fn claude_code_uses_its_variable_and_has_servers_per_project() {
        let moved: &dyn Fn(&str) -> Option<String> = &|name| (name == "CLAUDE_CONFIG_DIR").then(|| "/c".to_owned());
        let directories = UserDirectories::of(OperatingSystem::Linux, "/h".into(), Some("/p".into()), moved);
        let locations = directories.config_locations(find_client("claude-code").expect("a client"));
        assert_eq!(locations[0].file, Path::new("/c/.claude.json"));
        assert_eq!(locations[1].servers_path, ["projects", "/p", "mcpServers"]);
        assert_eq!(shorten_home(Path::new("/h/a/b"), Path::new("/h")), "~/a/b");
    }
}
