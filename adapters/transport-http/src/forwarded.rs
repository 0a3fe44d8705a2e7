//! Determines the client's address from the headers of trusted proxies.
//!
//! Any client can send these headers, and proxies append to them. They are therefore read from the
//! end, up to the first address that does not belong to a trusted proxy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use axum::http::HeaderMap;
use ipnet::{IpNet, Ipv4Net};

/// Trusted proxies, and the header in which they write the client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyTrust {
    pub proxies: Vec<ProxyNetwork>,
    pub header: ForwardedBy,
}

/// The header that the proxy sets. The other header is ignored: proxies forward unknown headers, so
/// it may come from the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ForwardedBy {
    #[default]
    XForwardedFor,
    /// RFC 7239.
    Forwarded,
}

impl Default for ProxyTrust {
    /// A proxy on the same machine.
    fn default() -> Self {
        let v4 = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8).into();
        let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST).into();
        Self { proxies: vec![ProxyNetwork(v4), ProxyNetwork(v6)], header: ForwardedBy::default() }
    }
}

/// An address or a network: `10.0.0.7`, `172.16.0.0/12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyNetwork(IpNet);

impl FromStr for ProxyNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(Self(network));
        }
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(Self(address.into())),
            Err(_) => {
                Err(format!("{text:?} is not an address; write `10.0.0.7` or `172.16.0.0/12`"))
            }
        }
    }
}

impl ProxyTrust {
    pub(crate) fn is_trusted(&self, peer: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.0.contains(&peer))
    }

    /// Returns the last address that is not a trusted proxy.
    pub(crate) fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        let (name, is_standard) = match self.header {
            ForwardedBy::XForwardedFor => ("x-forwarded-for", false),
            ForwardedBy::Forwarded => ("forwarded", true),
        };
        // RFC 9110, section 5.3: repeated headers are one list, in their order.
        let mut hops: Vec<&str> = Vec::new();
        for value in headers.get_all(name) {
            if let Ok(value) = value.to_str() {
                hops.extend(value.split(','));
            }
        }
        for hop in hops.into_iter().rev() {
            let address = if is_standard { forwarded_for(hop) } else { hop };
            // A trusted proxy writes valid addresses, so an invalid one ends the trusted part.
            match parse_address(address) {
                Some(address) if self.is_trusted(client) => client = address,
                _ => break,
            }
        }
        client
    }
}

/// Returns the value of `for` in one element of Forwarded; empty if there is none.
fn forwarded_for(element: &str) -> &str {
    for pair in element.split(';') {
        if let Some((name, value)) = pair.split_once('=')
            && name.trim().eq_ignore_ascii_case("for")
        {
            // RFC 7239, section 4: an address with a colon is a quoted string.
            return value.trim().trim_matches('"');
        }
    }
    ""
}

/// Parses an address with or without brackets and port.
fn parse_address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let address = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((address, _)) => address.parse().ok()?,
        // A bare IPv6 address has colons, so it must not be split at a port first.
        None => match text.parse() {
            Ok(address) => address,
            Err(_) => text.rsplit_once(':')?.0.parse().ok()?,
        },
    };
    // Otherwise an IPv4 proxy could be untrusted in its IPv6 form.
    Some(IpAddr::to_canonical(&address))
}
