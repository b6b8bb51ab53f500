//! Where clients keep their configurations. Everything that is looked up on the machine is handed in as values.

use std::path::{Path, PathBuf};

use super::client_table::ClientProfile;
use crate::header_template::EnvironmentLookup;

/// What Claude Code calls the folders that it has servers for.
pub const CLAUDE_PROJECTS_KEY: &str = "projects";

/// What a path begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseDirectory {
    /// The user's home.
    Home,
    /// Where applications keep what they are told: `~/.config`, `~/Library/Application Support`, `%APPDATA%`.
    Config,
    /// `~/.config` on every system.
    Xdg,
    /// `%LOCALAPPDATA%`.
    LocalData,
    /// Where Claude Code keeps its own: the home, unless `CLAUDE_CONFIG_DIR` says otherwise.
    Claude,
    /// The folder of a project.
    Project,
}

/// A file, by its base. Some are elsewhere on Windows.
#[derive(Debug, Clone, Copy)]
pub struct ClientConfigPath {
    /// What the path begins at.
    pub base: BaseDirectory,
    /// The rest of it.
    pub path: &'static str,
    /// Where it is on Windows, if not there.
    pub windows: Option<(BaseDirectory, &'static str)>,
}

/// The systems that clients run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatingSystem {
    /// Linux and its kin.
    Linux,
    /// macOS.
    Mac,
    /// Windows.
    Windows,
}

/// The directories of one user, and of one project.
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

/// A file of a client, and where in it the servers stand.
#[derive(Debug, Clone)]
pub struct ClientConfigLocation {
    /// Whose it is.
    pub client: &'static ClientProfile,
    /// The file.
    pub file: PathBuf,
    /// The names on the way to the servers.
    pub servers_path: Vec<String>,
}

impl ClientConfigLocation {
    /// The folder that the servers are for, where the file has some for each.
    pub fn project_folder(&self) -> Option<&str> {
        match self.servers_path.as_slice() {
            [first, folder, _] if first == CLAUDE_PROJECTS_KEY => Some(folder),
            _ => None,
        }
    }
}

impl OperatingSystem {
    /// The one this program was built for.
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
    /// The directories below a home, and nowhere else.
    pub fn under_home(system: OperatingSystem, home: PathBuf, project: Option<PathBuf>) -> Self {
        Self::of(system, home, project, &|_| None)
    }

    /// The directories of a user, by what the environment says.
    pub fn of(
        system: OperatingSystem,
        home: PathBuf,
        project: Option<PathBuf>,
        environment: EnvironmentLookup<'_>,
    ) -> Self {
        let named = |name: &str| environment(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        Self {
            system,
            xdg: named("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            app_data: named("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming")),
            local_data: named("LOCALAPPDATA").unwrap_or_else(|| home.join("AppData/Local")),
            claude: named("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.clone()),
            home,
            project,
        }
    }

    /// Where a file is; none for one of a project where there is none.
    fn resolve_path(&self, place: &ClientConfigPath) -> Option<PathBuf> {
        let (base, path) = match place.windows {
            Some(there) if self.system == OperatingSystem::Windows => there,
            _ => (place.base, place.path),
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

    /// Every place where a client may have servers, most usual first.
    pub fn config_locations(&self, client: &'static ClientProfile) -> Vec<ClientConfigLocation> {
        let root = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut spots = Vec::new();
        for place in client.config_paths {
            let Some(file) = self.resolve_path(place) else { continue };
            spots.push(ClientConfigLocation { client, file: file.clone(), servers_path: root(client.servers_path) });
            if let (BaseDirectory::Claude, Some(project)) = (place.base, &self.project) {
                // Claude Code keeps what is meant for one folder of this user in the user's file.
                let project = project.display().to_string();
                let root = vec![CLAUDE_PROJECTS_KEY.to_owned(), project, "mcpServers".to_owned()];
                spots.push(ClientConfigLocation { client, file, servers_path: root });
            }
        }
        spots
    }
}

/// A path as people know it: `~` for the home.
pub fn shorten_home(path: &Path, home: &Path) -> String {
    match path.strip_prefix(home) {
        Ok(rest) => format!("~/{}", rest.display()),
        Err(_) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::find_client;
    use super::*;

    fn files(system: OperatingSystem, id: &str, environment: EnvironmentLookup<'_>) -> Vec<String> {
        let places = UserDirectories::of(system, "/h".into(), Some("/p".into()), environment);
        places
            .config_locations(find_client(id).expect("a client"))
            .iter()
            .map(|spot| spot.file.display().to_string())
            .collect()
    }

    #[test]
    fn files_are_where_each_system_has_them() {
        let none: EnvironmentLookup<'_> = &|_| None;
        assert_eq!(
            files(OperatingSystem::Linux, "vscode", none),
            ["/p/.vscode/mcp.json", "/h/.config/Code/User/mcp.json"]
        );
        let there = "/h/Library/Application Support/Claude/claude_desktop_config.json";
        assert_eq!(files(OperatingSystem::Mac, "claude-desktop", none), [there]);
        let there = "/h/AppData/Roaming/Claude/claude_desktop_config.json";
        assert_eq!(files(OperatingSystem::Windows, "claude-desktop", none), [there]);
        let there = "/h/AppData/Roaming/Block/goose/config/config.yaml";
        assert_eq!(files(OperatingSystem::Windows, "goose", none), [there]);
        assert_eq!(files(OperatingSystem::Mac, "goose", none), ["/h/.config/goose/config.yaml"]);
    }

    #[test]
    fn claude_code_follows_its_variable_and_has_servers_for_one_folder() {
        let moved: EnvironmentLookup<'_> = &|name| (name == "CLAUDE_CONFIG_DIR").then(|| "/c".to_owned());
        let places = UserDirectories::of(OperatingSystem::Linux, "/h".into(), Some("/p".into()), moved);
        let spots = places.config_locations(find_client("claude-code").expect("a client"));
        assert_eq!(spots[0].file, Path::new("/c/.claude.json"));
        assert_eq!(spots[1].servers_path, ["projects", "/p", "mcpServers"]);
        assert_eq!(shorten_home(Path::new("/h/a/b"), Path::new("/h")), "~/a/b");
    }
}
