//! TLS of connections. Certificates and keys are read for every connection, so that renewed ones
//! are used without a restart.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::connect_options::{TlsMode, TlsOptions};
use super::password_file::read_private;

/// Builds the TLS configuration of a connection. The error names the file or parameter.
pub(crate) fn client_config(options: &TlsOptions) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let failed = |error: Error| format!("TLS: {error}");
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let verifier = match options.mode {
        // Not used, because such a connection has no TLS.
        TlsMode::Disable | TlsMode::Require => None,
        TlsMode::VerifyCa | TlsMode::VerifyFull => Some(
            WebPkiServerVerifier::builder_with_provider(
                Arc::new(load_roots(options.root_file.as_deref())?),
                Arc::clone(&provider),
            )
            .build()
            .map_err(|error| format!("TLS: {error}"))?,
        ),
    };
    let builder = match verifier {
        Some(verifier) if options.mode == TlsMode::VerifyFull => {
            builder.with_webpki_verifier(verifier)
        }
        chain => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NoHostnameVerifier { chain, provider })),
    };
    let Some((certificate, key)) = &options.client_files else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = read_certificates(certificate)?;
    let pem = read_private(key)?;
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| format!("{}: it holds no private key in PEM format", key.display()))?;
    builder.with_client_auth_cert(chain, key).map_err(failed)
}

fn load_roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let certificates = match file {
        Some(file) => read_certificates(file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        return Err(
            "TLS: this system has no certificate authorities; install ca-certificates, or \
                    name a file as sslrootcert"
                .to_owned(),
        );
    }
    Ok(roots)
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = file.display();
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(format!("{shown}: it holds no certificate in PEM format")),
        Err(error) => Err(format!("{shown}: it can't be read: {error}")),
    }
}

/// Accepts a server with any name, and without `chain` any certificate. The server must have the
/// certificate's key in both cases.
#[derive(Debug)]
struct NoHostnameVerifier {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for NoHostnameVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        // The name is compared last.
        match chain.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
