//! The rules of the seam.

use std::sync::Arc;

use super::support::TestServer;
use crate::database::Database;

fn open() -> (Arc<dyn Database>, TestServer) {
    let server = TestServer::new();
    (Arc::new(server.open()), server)
}

crate::tests::seam::seam_suite!(open());
