//! Certificates of a test server and of a client, made by the `openssl` command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cluster::{PostgresCluster, USER};

/// Paths of PEM files that the test process can read.
#[derive(Debug, Clone)]
pub struct TestCertificates {
    /// Signed the certificates of the server and of the client.
    pub authority: PathBuf,
    /// Signed nothing.
    pub other_authority: PathBuf,
    /// For the superuser of the cluster.
    pub client: PathBuf,
    pub client_key: PathBuf,
}

impl PostgresCluster {
    /// Gives the server a certificate for `localhost` and 127.0.0.1 and restarts it. It accepts
    /// connections with and without TLS.
    pub fn enable_tls(&self) -> TestCertificates {
        let folder = self.place.folder.join("certificates");
        fs::create_dir(&folder).unwrap();
        create_authority(&folder, "authority");
        create_authority(&folder, "other");
        sign(&folder, "server", "localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1");
        sign(&folder, "client", USER, "extendedKeyUsage=clientAuth");
        let data = self.place.data();
        for (source, target) in [
            ("server.pem", "server.crt"),
            ("server.key", "server.key"),
            ("authority.pem", "root.crt"),
        ] {
            let text = fs::read_to_string(folder.join(source)).unwrap();
            self.place.write_private(&data.join(target), &text);
        }
        self.configure("ssl", "on");
        self.configure("ssl_ca_file", "root.crt");
        self.stop(crate::StopMode::Fast);
        self.start_again();
        TestCertificates {
            authority: folder.join("authority.pem"),
            other_authority: folder.join("other.pem"),
            client: folder.join("client.pem"),
            client_key: folder.join("client.key"),
        }
    }
}

const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

fn create_authority(folder: &Path, name: &str) {
    let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
    let subject = format!("/CN=test {name}");
    let mut arguments = vec!["req", "-x509", "-days", "2", "-subj", &subject];
    arguments.extend(NEW_KEY);
    arguments.extend(["-keyout", &key, "-out", &certificate]);
    openssl(folder, &arguments);
}

fn sign(folder: &Path, name: &str, subject: &str, extension: &str) {
    let [key, request, certificate] = ["key", "csr", "pem"].map(|kind| format!("{name}.{kind}"));
    let extensions = format!("{name}.ext");
    fs::write(folder.join(&extensions), format!("basicConstraints=CA:FALSE\n{extension}\n"))
        .unwrap();
    let subject = format!("/CN={subject}");
    let mut arguments = vec!["req", "-new", "-subj", &subject];
    arguments.extend(NEW_KEY);
    arguments.extend(["-keyout", &key, "-out", &request]);
    openssl(folder, &arguments);
    let mut arguments = vec!["x509", "-req", "-days", "2", "-in", &request, "-out", &certificate];
    arguments.extend(["-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial"]);
    arguments.extend(["-extfile", &extensions]);
    openssl(folder, &arguments);
}

fn openssl(folder: &Path, arguments: &[&str]) {
    let output = Command::new("openssl")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("openssl is not installed; install it: apt-get install openssl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
