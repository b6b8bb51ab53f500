//! The server handler, which delegates to the other files.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, RequestStateCodec, RequestStateError, ServerCapabilities,
    ServerInfo, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use crate::{asks, prompts, resources, tasks, tools};

/// How long a client may cache a list: long enough to notice a gateway that changes it.
const TTL_MS: u64 = 60_000;
/// Signs the state that a client returns between the rounds of a call. It protects nothing.
const STATE_KEY: &[u8] = b"a key for tests, long enough to be one";

type Context = RequestContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;

/// The server. Clones share all state.
#[derive(Clone)]
pub struct Fixture {
    pub state: RequestStateCodec,
    pub tasks: TaskManager,
    listeners: Arc<Mutex<HashMap<u64, SubscriptionSink>>>,
    next_listener: Arc<AtomicU64>,
}

impl Fixture {
    pub fn new() -> Result<Self, RequestStateError> {
        Ok(Self {
            state: RequestStateCodec::try_new(STATE_KEY)?,
            tasks: TaskManager::new(),
            listeners: Arc::default(),
            next_listener: Arc::default(),
        })
    }

    /// Returns all current listeners.
    pub fn listeners(&self) -> Vec<SubscriptionSink> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, SubscriptionSink>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerInfo {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tasks()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerInfo::new(capabilities).with_server_info(Implementation::new("conformance-rmcp", "1.0.0"))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(name)
    }

    async fn list_tools(&self, _: Page, _: Context) -> Result<ListToolsResult, ErrorData> {
        let result = ListToolsResult { tools: tools::all(), ..Default::default() };
        Ok(result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        loop {
            let response = tools::call(self, request.clone(), &context).await?;
            let CallToolResponse::InputRequired(needed) = &response else { return Ok(response) };
            let Some(responses) = asks::responses(needed, &context).await? else { return Ok(response) };
            request.input_responses = Some(responses);
            request.request_state.clone_from(&needed.request_state);
        }
    }

    async fn list_resources(&self, _: Page, _: Context) -> Result<ListResourcesResult, ErrorData> {
        let result = ListResourcesResult { resources: resources::all(), ..Default::default() };
        Ok(result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_resource_templates(&self, _: Page, _: Context) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = resources::templates();
        let result = ListResourceTemplatesResult { resource_templates: templates, ..Default::default() };
        Ok(result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let result = resources::read(&request.uri)?;
        Ok(result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public).into())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_prompts(&self, _: Page, _: Context) -> Result<ListPromptsResult, ErrorData> {
        let result = ListPromptsResult { prompts: prompts::all(), ..Default::default() };
        Ok(result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        mut request: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        loop {
            let response = prompts::get(&request)?;
            let GetPromptResponse::InputRequired(needed) = &response else { return Ok(response) };
            let Some(responses) = asks::responses(needed, &context).await? else { return Ok(response) };
            request.input_responses = Some(responses);
        }
    }

    async fn complete(&self, request: CompleteRequestParams, _: Context) -> Result<CompleteResult, ErrorData> {
        prompts::complete(&request)
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, asked: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(asked.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let key = self.next_listener.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(key, context.sink().clone());
        context.cancelled().await;
        self.lock().remove(&key);
        Ok(())
    }

    async fn get_task(&self, request: GetTaskParams, _: Context) -> Result<GetTaskResult, ErrorData> {
        tasks::get(self, &request)
    }

    async fn update_task(&self, request: UpdateTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
