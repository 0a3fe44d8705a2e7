//! Where a request really comes from, when a proxy stands in between.
//!
//! Anybody can write the header that names the client. Only what a trusted proxy wrote counts, and
//! proxies append: so it is read from its end, up to the first address that is none of theirs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use axum::http::HeaderMap;
use axum::http::header::FORWARDED;
use ipnet::{IpNet, Ipv4Net};

/// Which proxies are believed, and where they write the client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyTrust {
    pub proxies: Vec<Network>,
    pub header: ForwardedBy,
}

/// The header that the proxy sets. The other one is not looked at: proxies pass on what they do not
/// know, so clients could write it.
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
        Self { proxies: vec![Network(v4), Network(v6)], header: ForwardedBy::default() }
    }
}

/// An address or a network: `10.0.0.7`, `172.16.0.0/12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        let network = text.parse::<IpNet>().or_else(|_| address());
        network
            .map(Self)
            .map_err(|_| format!("{text:?} is not an address; write `10.0.0.7` or `172.16.0.0/12`"))
    }
}

impl ProxyTrust {
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.0.contains(&peer))
    }

    /// The last address on the way that is no proxy of ours.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        let written: Vec<&str> = match self.header {
            ForwardedBy::XForwardedFor => headers.get_all("x-forwarded-for"),
            ForwardedBy::Forwarded => headers.get_all(FORWARDED),
        }
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
        for hop in written.into_iter().rev() {
            if !self.trusts(client) {
                break;
            }
            let address = match self.header {
                ForwardedBy::XForwardedFor => hop,
                ForwardedBy::Forwarded => forwarded_for(hop),
            };
            // What is no address was not written by a proxy of ours.
            let Some(address) = address_of(address) else { break };
            client = address;
        }
        client
    }
}

/// The value of `for` in one element of Forwarded.
fn forwarded_for(element: &str) -> &str {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    named.next().map_or("", |(_, value)| value.trim().trim_matches('"'))
}

/// An address with or without brackets and port.
fn address_of(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let address = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((address, _)) => address.parse().ok()?,
        None => match text.parse() {
            Ok(address) => address,
            Err(_) => text.rsplit_once(':')?.0.parse().ok()?,
        },
    };
    Some(IpAddr::to_canonical(&address))
}
