//! The rules of the seam.

use std::sync::Arc;

use super::support::TestServer;
use reqlore_row_store::database::Database;

fn open() -> (Arc<dyn Database>, TestServer) {
    let server = TestServer::new();
    (Arc::new(server.open()), server)
}

reqlore_contract::seam_suite!(open());
