//! Where clients keep their configurations. Everything that is looked up on the machine is handed in as values.

use std::path::{Path, PathBuf};

use super::table::Client;
use crate::header_template::EnvironmentLookup;

/// What Claude Code calls the folders that it has servers for.
pub const PROJECTS: &str = "projects";

/// What a path begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
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
pub struct Place {
    /// What the path begins at.
    pub base: Base,
    /// The rest of it.
    pub path: &'static str,
    /// Where it is on Windows, if not there.
    pub windows: Option<(Base, &'static str)>,
}

/// The systems that clients run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Linux and its kin.
    Linux,
    /// macOS.
    Mac,
    /// Windows.
    Windows,
}

/// The directories of one user, and of one project.
#[derive(Debug, Clone)]
pub struct Places {
    system: System,
    home: PathBuf,
    xdg: PathBuf,
    app_data: PathBuf,
    local_data: PathBuf,
    claude: PathBuf,
    project: Option<PathBuf>,
}

/// A file of a client, and where in it the servers stand.
#[derive(Debug, Clone)]
pub struct Spot {
    /// Whose it is.
    pub client: &'static Client,
    /// The file.
    pub file: PathBuf,
    /// The names on the way to the servers.
    pub root: Vec<String>,
}

impl Spot {
    /// The folder that the servers are for, where the file has some for each.
    pub fn folder(&self) -> Option<&str> {
        match self.root.as_slice() {
            [first, folder, _] if first == PROJECTS => Some(folder),
            _ => None,
        }
    }
}

impl System {
    /// The one this program was built for.
    pub fn this() -> Self {
        if cfg!(target_os = "windows") {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::Mac
        } else {
            Self::Linux
        }
    }
}

impl Places {
    /// The directories below a home, and nowhere else.
    pub fn below(system: System, home: PathBuf, project: Option<PathBuf>) -> Self {
        Self::of(system, home, project, &|_| None)
    }

    /// The directories of a user, by what the environment says.
    pub fn of(system: System, home: PathBuf, project: Option<PathBuf>, environment: EnvironmentLookup<'_>) -> Self {
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
    fn path(&self, place: &Place) -> Option<PathBuf> {
        let (base, path) = match place.windows {
            Some(there) if self.system == System::Windows => there,
            _ => (place.base, place.path),
        };
        let base = match base {
            Base::Home => &self.home,
            Base::Config => &self.config(),
            Base::Xdg => &self.xdg,
            Base::LocalData => &self.local_data,
            Base::Claude => &self.claude,
            Base::Project => self.project.as_deref()?,
        };
        Some(base.join(path))
    }

    fn config(&self) -> PathBuf {
        match self.system {
            System::Linux => self.xdg.clone(),
            System::Mac => self.home.join("Library/Application Support"),
            System::Windows => self.app_data.clone(),
        }
    }

    /// Every place where a client may have servers, most usual first.
    pub fn spots(&self, client: &'static Client) -> Vec<Spot> {
        let root = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut spots = Vec::new();
        for place in client.files {
            let Some(file) = self.path(place) else { continue };
            spots.push(Spot { client, file: file.clone(), root: root(client.root) });
            if let (Base::Claude, Some(project)) = (place.base, &self.project) {
                // Claude Code keeps what is meant for one folder of this user in the user's file.
                let project = project.display().to_string();
                let root = vec![PROJECTS.to_owned(), project, "mcpServers".to_owned()];
                spots.push(Spot { client, file, root });
            }
        }
        spots
    }
}

/// A path as people know it: `~` for the home.
pub fn short(path: &Path, home: &Path) -> String {
    match path.strip_prefix(home) {
        Ok(rest) => format!("~/{}", rest.display()),
        Err(_) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    fn files(system: System, id: &str, environment: EnvironmentLookup<'_>) -> Vec<String> {
        let places = Places::of(system, "/h".into(), Some("/p".into()), environment);
        places.spots(find(id).expect("a client")).iter().map(|spot| spot.file.display().to_string()).collect()
    }

    #[test]
    fn files_are_where_each_system_has_them() {
        let none: EnvironmentLookup<'_> = &|_| None;
        assert_eq!(files(System::Linux, "vscode", none), ["/p/.vscode/mcp.json", "/h/.config/Code/User/mcp.json"]);
        let there = "/h/Library/Application Support/Claude/claude_desktop_config.json";
        assert_eq!(files(System::Mac, "claude-desktop", none), [there]);
        let there = "/h/AppData/Roaming/Claude/claude_desktop_config.json";
        assert_eq!(files(System::Windows, "claude-desktop", none), [there]);
        let there = "/h/AppData/Roaming/Block/goose/config/config.yaml";
        assert_eq!(files(System::Windows, "goose", none), [there]);
        assert_eq!(files(System::Mac, "goose", none), ["/h/.config/goose/config.yaml"]);
    }

    #[test]
    fn claude_code_follows_its_variable_and_has_servers_for_one_folder() {
        let moved: EnvironmentLookup<'_> = &|name| (name == "CLAUDE_CONFIG_DIR").then(|| "/c".to_owned());
        let places = Places::of(System::Linux, "/h".into(), Some("/p".into()), moved);
        let spots = places.spots(find("claude-code").expect("a client"));
        assert_eq!(spots[0].file, Path::new("/c/.claude.json"));
        assert_eq!(spots[1].root, ["projects", "/p", "mcpServers"]);
        assert_eq!(short(Path::new("/h/a/b"), Path::new("/h")), "~/a/b");
    }
}
