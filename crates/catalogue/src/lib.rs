//! What we know of tools: what each can do, how sure that is and why, which attacks it serves, and which rule fits.
//!
//! Everything here is pure: the same definition gives the same answer. No model is called, nothing is fetched.
//! Words, weights and patterns are data, in `data/`.

mod attack;
mod calibrate;
mod classify;
mod decide;
mod evaluate;
mod explain;
mod features;
mod flow;
mod grade;
mod incident;
mod index;
mod labels;
mod letters;
mod lexicon;
mod model;
mod name;
mod package;
mod parameters;
mod precheck;
mod read;
mod ready;
mod recommend;
mod recorded;
mod rulebook;
mod server;
mod shown;
mod signals;
mod site;
mod stack;
mod text;
mod tool;
mod train;
mod trained;

pub use attack::{Pattern, patterns};
pub use classify::{Classification, Level, classify, told as told_category, word as category_name};
pub use evaluate::{Bin, Counts, Evaluation, Mistake, Share};
pub use flow::Flow;
pub use grade::{Grade, grade};
pub use incident::{Affected, Concern, Incident, incidents};
pub use index::{
    About, Change, ChangeKind, Claims, Found, Index, IndexedServer, IndexedTool, Known, OpenIndexError, PackageFacts,
    ParameterFacts, Query, ServerChanges, Source, ToolFacts, WriteIndexError, changes, normal_name, write_index,
};
pub use labels::{Label, Labelled, labelled};
pub use package::{PackageName, Reading};
pub use precheck::{Advice, Precheck, precheck, precheck_read};
pub use read::{Item, ReadError, read_tools};
pub use ready::{Posture, ReadyError, ready, scaffold};
pub use recommend::{Remedy, effect, recommended};
pub use server::Server;
pub use shown::shown;
pub use signals::{Signal, SignalKind};
pub use site::{Page, Site, html_code};
pub use stack::{Member, Stack, combinations, stack};
pub use tool::{Annotations, Tool};
pub use train::{Source as LabelSource, Training, Unseen, train};
