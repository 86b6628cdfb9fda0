/* Graphs: the work that was put onto a stream while it was captured, to be put onto one again and again. */
#include "libcuda.h"

#include <stdlib.h>

struct graph {
    struct op *first;
    size_t nodes;
};

static struct graph *new_graph(enum kind kind, struct op *first)
{
    struct graph *graph = calloc(1, sizeof *graph);
    graph->first = first;
    for (struct op *op = first; op; op = op->next) graph->nodes++;
    keep(kind, graph, 0, 0);
    return graph;
}

static struct op *copy_all(const struct op *op)
{
    struct op *first = NULL, **last = &first;
    for (; op; op = op->next) {
        *last = copy_op(op);
        last = &(*last)->next;
    }
    return first;
}

static void free_all(struct op *op)
{
    while (op) {
        struct op *next = op->next;
        free_op(op);
        op = next;
    }
}

static int destroy(enum kind kind, struct graph *graph)
{
    if (!forget(kind, graph, NULL)) return INVALID_HANDLE;
    free_all(graph->first);
    free(graph);
    return SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    ENTER_IN_CONTEXT();
    int code = begin_capture(stream, mode);
    if (!code) count(CAPTURES, 1);
    return code;
}

/* The capture is over, also where this answers an error. */
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    struct op *first;
    int code = end_capture(stream, &first);
    int told = enter_in_context(__func__);
    if (told) code = told;
    *graph = NULL;
    if (code) free_all(first);
    else *graph = new_graph(GRAPH, first);
    return code;
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    ENTER();
    static __thread int own;
    int before = own;
    own = *mode;
    *mode = before;
    return SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, void **nodes, size_t *number)
{
    ENTER();
    if (!alive(GRAPH, graph)) return INVALID_HANDLE;
    (void)nodes; /* none of them has a handle here */
    *number = graph->nodes;
    return SUCCESS;
}

static int instantiate(CUgraphExec *made, CUgraph graph)
{
    if (!alive(GRAPH, graph)) return INVALID_HANDLE;
    *made = new_graph(GRAPH_EXEC, copy_all(graph->first));
    return SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph, unsigned long long flags)
{
    ENTER_IN_CONTEXT();
    (void)flags;
    return instantiate(made, graph);
}

/* As it was before CUDA 11.4. */
CUresult cuGraphInstantiate_v2(CUgraphExec *made, CUgraph graph, void *error_node, char *log, size_t room)
{
    ENTER_IN_CONTEXT();
    (void)error_node;
    if (log && room) *log = 0;
    return instantiate(made, graph);
}

CUresult cuGraphUpload(CUgraphExec graph, CUstream stream)
{
    ENTER_IN_CONTEXT();
    (void)stream;
    return alive(GRAPH_EXEC, graph) ? SUCCESS : INVALID_HANDLE;
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream)
{
    ENTER_IN_CONTEXT();
    if (!alive(GRAPH_EXEC, graph)) return INVALID_HANDLE;
    count(GRAPH_LAUNCHES, 1);
    for (const struct op *op = graph->first; op; op = op->next) {
        int code = order(stream, copy_op(op));
        if (code) return code;
    }
    return SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    ENTER();
    return destroy(GRAPH, graph);
}

CUresult cuGraphExecDestroy(CUgraphExec graph)
{
    ENTER();
    return destroy(GRAPH_EXEC, graph);
}
