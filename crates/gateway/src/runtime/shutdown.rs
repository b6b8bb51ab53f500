//! The two steps of a shutdown: first the gateway stops accepting and drains, then it ends what is left.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::workers::current_worker;

/// Says whether the gateway stops, and whether its drain period is over.
#[derive(Debug)]
pub(crate) struct Shutdown {
    /// Set to true once, when the gateway stops. Listeners, connections and streams watch it.
    stopping: watch::Sender<bool>,
    /// Cancelled once, when the drain period is over. Unfinished calls then receive an error.
    forced: CancellationToken,
    /// A child of `forced` for each worker. Each call waits on its worker's child, so that workers do not contend for
    /// the parent.
    forced_on_worker: Box<[CancellationToken]>,
}

impl Shutdown {
    pub fn new(workers: usize) -> Self {
        let forced = CancellationToken::new();
        let forced_on_worker = (0..workers).map(|_| forced.child_token()).collect();
        Self { stopping: watch::Sender::new(false), forced, forced_on_worker }
    }

    /// Starts the shutdown.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns a receiver that becomes true when the gateway stops.
    pub fn subscribe(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Waits until the gateway stops.
    pub async fn wait(&self) {
        let mut stop = self.subscribe();
        // An error means that the gateway is gone, which is a stop too.
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// Ends the drain period.
    pub fn force(&self) {
        self.forced.cancel();
    }

    pub fn is_forced(&self) -> bool {
        self.forced.is_cancelled()
    }

    /// Waits until the drain period is over.
    pub async fn wait_until_forced(&self) {
        self.forced_on_worker.get(current_worker()).unwrap_or(&self.forced).cancelled().await;
    }
}
