//! Port forwarding over WebSocket: the tunneled SPDY is unwrapped for the kubelet (upstream: `TunnelingHandler`).

use http::Method;
use kevel_api::status::StatusError;
use kevel_streaming::copy::copy_bidirectional;
use kevel_streaming::rate::Rate;
use kevel_streaming::tunnel;
use kevel_streaming::upgrade::websocket;
use kevel_streaming::websocket::{Role, Socket, Tunnel};

use super::upgrade::{self, Upgraded};
use super::{Location, Transport, go_on, headers, refused, unknown};
use crate::handler::Response;
use crate::request::Request;

/// Whether a request asks for a tunnel.
pub fn is_asked(request: &Request) -> bool {
    websocket::is_tunneling_request(&request.parts.headers)
}

/// Requests SPDY from the kubelet, and responds to the client accordingly.
pub async fn serve(
    mut request: Request,
    location: &Location,
    transport: &Transport,
    rate: Option<Rate>,
) -> Result<Response, StatusError> {
    let client = request.parts.headers.clone();
    request.parts.headers = match tunnel::spdy_headers(&client) {
        Ok(headers) => headers,
        Err(refusal) => return Ok(refused(*refusal)),
    };
    let mut outgoing = http::Request::new(());
    *outgoing.method_mut() = Method::POST;
    *outgoing.uri_mut() = location.uri().map_err(unknown)?;
    *outgoing.headers_mut() = headers::outgoing_upgrade(&request);
    let (parts, kubelet) = match upgrade::ask(transport, &outgoing).await? {
        Upgraded::Switched(parts, kubelet) => (parts, kubelet),
        Upgraded::Refused(response) => return Ok(response),
    };
    match tunnel::accept(&request.parts.method, &client, &parts) {
        Err(refusal) => Ok(refused(*refusal)),
        Ok(accepted) => Ok(go_on(accepted.into_parts().0, move |client| {
            let tunnel = Tunnel::new(Socket::new(client, Role::Server));
            copy_bidirectional(tunnel, kubelet, rate)
        })),
    }
}
