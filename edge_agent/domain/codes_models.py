"""Codes of models, their engine hosts and children, and of requests to them."""

from __future__ import annotations

from typing import Dict

from edge_agent.domain.texts import Code, code

MODELS: Dict[str, Code] = {
    "model.loading": code("The model is being loaded.", "正在加载模型。"),
    "model.loaded": code("The model is loaded.", "模型已加载。"),
    "model.unloaded": code("The model was unloaded.", "模型已卸载。", "Load it to use it again.", "如需使用，请重新加载。"),
    "model.repository": code(
        "The model repository cannot be read: {text}",
        "无法读取模型库：{text}",
        "Make the folder, mount its disk, or set models.repository to where your models are.",
        "请创建该目录、挂载其磁盘，或将 models.repository 设为模型所在的位置。",
    ),
    "model.holds_lost": code(
        "Which models were taken down by hand is not known any more.",
        "已无法得知哪些模型曾被手动停用。",
        "Take them down again: edge-agent models unload NAME.",
        "请重新停用：edge-agent models unload 名称。",
    ),
    "model.load_failed": code(
        "The model could not be loaded: {text}",
        "模型无法加载：{text}",
        "Correct the model file or its config.toml, then load it again.",
        "请修正模型文件或其 config.toml，然后重新加载。",
    ),
    "model.unreadable": code(
        "A file of the model cannot be read now: {text}",
        "暂时无法读取模型的文件：{text}",
        "Look at the disk and at the file's rights. Polling tries again by itself; else load the model again.",
        "请检查磁盘和文件权限。轮询模式会自动重试，否则请重新加载该模型。",
    ),
    "model.failed": code(
        "The model could not be loaded: {text}",
        "模型无法加载：{text}",
        "Correct the model file or its config.toml, then load it again.",
        "请修正模型文件或其 config.toml，然后重新加载。",
    ),
    "model.config_rejected": code(
        "The model's configuration has faults: {text}",
        "模型配置有误：{text}",
        "Correct its config.toml; `edge-agent check` lists every fault.",
        "请修正其 config.toml；运行 `edge-agent check` 可列出所有错误。",
    ),
    "model.dependency": code(
        "A model that this ensemble calls is not ready: {text}",
        "该组合模型所调用的模型尚未就绪：{text}",
        "See the state of that model and load it, or correct the step in ensemble_scheduling.",
        "请查看该模型的状态并加载它，或修正 ensemble_scheduling 中的步骤。",
    ),
    "model.cycle": code(
        "These ensembles call each other in a circle: {text}",
        "这些组合模型循环调用：{text}",
        "Take one of them out of the steps of another.",
        "请从其中一个组合模型的步骤中去掉另一个。",
    ),
    "model.warning": code(
        "The model is loaded, but something about it should be known; the log has it.",
        "模型已加载，但有一点需要注意，详见日志。",
        "See the log.",
        "请查看日志。",
    ),
    "model.host_down": code(
        "The engine host of this model is down; it is being started again.",
        "该模型的推理进程已退出，正在重新启动。",
        "Wait a few seconds; if it stays so, see the engine host's state.",
        "请稍候几秒；如果持续如此，请查看推理进程的状态。",
    ),
    "model.stopped": code(
        "The model was stopped, as its requests ended its engine host again and again.",
        "由于该模型的请求多次导致推理进程退出，模型已被停止。",
        "Install another version of the model or correct what is sent to it, then load it again.",
        "请更换模型版本或修正发送的数据，然后重新加载。",
    ),
    "model.not_found": code(
        "There is no such model in the repository.",
        "模型库中没有该模型。",
        "Check its name, and that models/NAME/1/ holds a model file.",
        "请检查名称，并确认 models/名称/1/ 下有模型文件。",
    ),
    "model.busy": code(
        "The model is being loaded or unloaded already.",
        "该模型正在加载或卸载。",
        "Try again when that has ended.",
        "请在其完成后重试。",
    ),
    "engine_host.starting": code("The engine host is starting.", "推理进程正在启动。"),
    "engine_host.up": code("The engine host runs.", "推理进程运行正常。"),
    "engine_host.down": code(
        "The engine host ended; it is being started again.",
        "推理进程已退出，正在重新启动。",
        "If it happens again and again, a model in it is the likely cause: see the log.",
        "如果反复发生，很可能是其中某个模型所致，请查看日志。",
    ),
    "engine_host.died": code(
        "The engine host ended while it worked; it is being started again.",
        "推理进程在工作时退出，正在重新启动。",
        "If it happens again and again, a model in it is the likely cause: see the log.",
        "如果反复发生，很可能是其中某个模型所致，请查看日志。",
    ),
    "engine_host.cannot_start": code(
        "The engine host does not come up: {text}",
        "推理进程无法启动：{text}",
        "Mend what it says: [hosts.NAME] python names its interpreter, which needs numpy. Then load the model again.",
        "请解决上述问题：[hosts.NAME] 的 python 指定其解释器，该解释器需要 numpy。然后重新加载模型。",
    ),
    "engine_host.hung": code(
        "The engine host did not answer in its time; it was ended and is being started again.",
        "推理进程超时无响应，已被终止并正在重新启动。",
        "Where a batch truly takes long, raise batch_timeout_s of its host.",
        "如果单次推理确实需要很长时间，请提高该推理进程的 batch_timeout_s。",
    ),
    "engine_host.stopped": code("The engine host was stopped, as no model uses it.", "没有模型使用该推理进程，已停止。"),
    "engine.error": code("The engine failed.", "推理引擎出错。", "See the log.", "请查看日志。"),
    "engine.execution_failed": code(
        "The model failed on this request.",
        "模型处理该请求时出错。",
        "Check the shapes and values that were sent.",
        "请检查所发送数据的形状和数值。",
    ),
    "engine.decode_failed": code(
        "The model's outputs could not be decoded.",
        "无法解码模型的输出。",
        "Check `kind` in the model's [decode] against what the model gives.",
        "请检查该模型 [decode] 中的 kind 是否与其输出相符。",
    ),
    "engine.no_decoder": code(
        "The model has no [decode] section, so its outputs are plain tensors.",
        "该模型没有 [decode] 配置段，其输出只是普通张量。",
        "Add [decode] to its config.toml, or ask for its tensors at /v2/models/NAME/infer.",
        "请在其 config.toml 中添加 [decode]，或通过 /v2/models/名称/infer 获取张量。",
    ),
    "engine.answer_dropped": code(
        "The result waited too long for memory and was dropped.",
        "结果等待内存过久，已被丢弃。",
        "Send fewer requests at a time, or raise max_bytes in [arena].",
        "请减少并发请求，或提高 [arena] 中的 max_bytes。",
    ),
    "engine.bad_reference": code(
        "A request named memory that is not there.",
        "请求引用了不存在的内存。",
        "See the log; please report it.",
        "请查看日志并反馈此问题。",
    ),
    "engine.result_too_large": code(
        "The model's result is too large to be handed on.",
        "模型结果过大，无法传递。",
        "Raise min_score or lower max_objects in the model's [decode].",
        "请提高该模型 [decode] 中的 min_score 或降低 max_objects。",
    ),
    "child.error": code("A child process did not do what was asked.", "子进程未能完成任务。", "See the log.", "请查看日志。"),
    "child.gone": code("A child process ended; it is being started again.", "子进程已退出，正在重新启动。"),
    "child.died": code("A child process ended; it is being started again.", "子进程已退出，正在重新启动。"),
    "child.cannot_start": code(
        "A child process ends before it has begun; it is tried again.",
        "子进程尚未运行就已退出，正在重试。",
        "Mend what it says, the interpreter most likely.",
        "请解决其提示的问题，通常与解释器有关。",
    ),
    "child.silent": code(
        "A child process did not answer in time; it is being started again.", "子进程超时无响应，正在重新启动。"
    ),
    "child.refused": code("A child process answered with an error.", "子进程返回了错误。", "See the log.", "请查看日志。"),
    "child.busy": code(
        "Too many operations wait in a child process.", "子进程中等待的操作过多。", "Try again later.", "请稍后重试。"
    ),
    "child.unknown_op": code(
        "A child process does not know the operation.",
        "子进程不认识该操作。",
        "The installation mixes versions: install the agent again.",
        "安装中混有不同版本：请重新安装代理程序。",
    ),
    "child.crashed_op": code(
        "An operation failed in a child process.", "子进程中的一项操作失败。", "See the log.", "请查看日志。"
    ),
    "child.failed_start": code(
        "A child process could not be started: {text}",
        "无法启动子进程：{text}",
        "Check the `python` key of its section, and that the packages it needs are installed for that interpreter.",
        "请检查其配置段中的 `python` 项，并确认该解释器已安装所需的软件包。",
    ),
    "request.invalid": code(
        "The request is malformed.", "请求格式有误。", "The answer's text says what is wrong.", "应答文本中说明了错误所在。"
    ),
    "request.tensor_mismatch": code(
        "A tensor of the request does not fit the model.",
        "请求中的张量与模型不符。",
        "Compare it with the model's metadata: GET /v2/models/NAME.",
        "请与模型元数据对照：GET /v2/models/名称。",
    ),
    "request.unknown_model": code(
        "There is no such model or version.",
        "没有该模型或版本。",
        "GET /api/status lists the models.",
        "GET /api/status 可列出所有模型。",
    ),
    "request.too_large": code(
        "The body is over the limit.",
        "请求正文超过上限。",
        "Send less, or raise max_body_bytes in [http].",
        "请减小数据，或提高 [http] 中的 max_body_bytes。",
    ),
    "request.unsupported": code(
        "This version does not do what was asked.",
        "此版本不支持该请求。",
        "The answer's text says what is not supported.",
        "应答文本中说明了不支持的内容。",
    ),
    "request.unavailable": code("Not possible now.", "暂时无法处理。", "Try again later.", "请稍后重试。"),
    "request.model_not_ready": code(
        "The model is not ready.",
        "模型尚未就绪。",
        "Try again later, or see the model's state.",
        "请稍后重试，或查看模型状态。",
    ),
    "request.queue_full": code(
        "The model's queue is full.",
        "模型的等待队列已满。",
        "Send fewer requests at a time, or raise max_queue_size.",
        "请减少并发请求，或提高 max_queue_size。",
    ),
    "request.arena_full": code(
        "No tensor memory is free.",
        "没有空闲的张量内存。",
        "Send fewer or smaller requests at a time, or raise max_bytes in [arena].",
        "请减少并发请求或数据量，或提高 [arena] 中的 max_bytes。",
    ),
    "request.deadline": code(
        "The answer would have come too late.",
        "应答已超过期限。",
        "Give the request more time, or the model less to do.",
        "请放宽期限，或减轻模型负载。",
    ),
    "request.draining": code("The agent is stopping.", "代理程序正在停止。", "Try again when it runs.", "请在其运行后重试。"),
    "request.control_mode": code(
        "Loading and unloading by request is not allowed in this control mode.",
        "当前控制模式不允许通过请求加载或卸载模型。",
        "Set models.control_mode to explicit, or use edge-agent models load|unload, which work in every mode.",
        "请将 models.control_mode 设为 explicit，或使用在任何模式下都有效的 edge-agent models load|unload。",
    ),
    "request.cancelled": code("The caller left before the answer came.", "调用方在应答前已离开。"),
}
