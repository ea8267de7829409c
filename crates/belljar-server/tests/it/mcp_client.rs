//! A client of the Model Context Protocol over HTTP.

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::{Ask as _, Client};

/// One that speaks the protocol: with a connection, or of the stateless revision.
pub(crate) struct Mcp {
    pub(crate) client: Client,
    pub(crate) connection: Option<String>,
}

pub(crate) const STATELESS: &str = "2026-07-28";

pub(crate) fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    }})
}

pub(crate) fn send(client: &Client, message: &Value) -> reqwest::RequestBuilder {
    client
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .json(message)
}

/// The answer of a call: the last message of a stream, or the body.
pub(crate) async fn answer(response: Response) -> Value {
    let status = response.status();
    let text = response.text().await.unwrap();
    assert_eq!(status, 200, "{text}");
    let messages = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let last = messages.map(str::trim).rfind(|data| !data.is_empty());
    serde_json::from_str(last.unwrap_or(&text)).unwrap()
}

impl Mcp {
    pub(crate) async fn open(client: &Client) -> Self {
        Self::open_with(client, json!({})).await
    }

    /// With what the client says that it can do.
    pub(crate) async fn open_with(client: &Client, capabilities: Value) -> Self {
        let mut message = initialize();
        message["params"]["capabilities"] = capabilities;
        let response = send(client, &message).with(200).await;
        let id = response.headers()["mcp-session-id"].to_str().unwrap();
        let connection = Some(id.to_owned());
        let answer = answer(response).await;
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{answer:#}"
        );
        let opened = Self {
            client: client.clone(),
            connection,
        };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        opened.send(&initialized).with(202).await;
        opened
    }

    pub(crate) fn stateless(client: &Client) -> Self {
        Self {
            client: client.clone(),
            connection: None,
        }
    }

    pub(crate) fn send(&self, message: &Value) -> reqwest::RequestBuilder {
        let request = send(&self.client, message);
        if let Some(id) = &self.connection {
            return request.header("mcp-session-id", id);
        }
        let request = request
            .header("mcp-protocol-version", STATELESS)
            .header("mcp-method", message["method"].as_str().unwrap());
        match message["params"]["name"].as_str() {
            Some(name) => request.header("mcp-name", name),
            None => request,
        }
    }

    pub(crate) fn request(&self, method: &str, mut params: Value) -> reqwest::RequestBuilder {
        if self.connection.is_none() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            });
        }
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    }

    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let answer = answer(self.request(method, params).send().await.unwrap()).await;
        assert!(answer["error"].is_null(), "{answer:#}");
        answer["result"].clone()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.ask("tools/call", params).await
    }

    /// What a cell of the default session prints.
    pub(crate) async fn prints(&self, code: &str) -> String {
        let result = self.call("run_python", json!({"code": code})).await;
        assert_ne!(result["isError"], true, "{result:#}");
        let text = result["structuredContent"]["stdout"]["text"].as_str();
        text.unwrap_or_else(|| panic!("{result:#}")).to_owned()
    }

    pub(crate) async fn tools(&self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({})).await;
        let tools = listed["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }
}
