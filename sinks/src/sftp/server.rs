use super::host_keys::HostKeys;
use super::login::LoginSource;
use crate::address::Address;

/// A server, and how its identity and ours are proven.
#[derive(Debug)]
pub struct SftpServer {
    /// Where the files go.
    pub address: Address,
    /// The accepted keys of the server.
    pub host_keys: HostKeys,
    /// Where the password or the private key of the user comes from.
    pub login: LoginSource,
}
