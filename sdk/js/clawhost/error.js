// Errors that a plugin answers with.

/** What a plugin says instead of an answer. In a step it is the agent's next observation, and the agent may try again. */
export class PluginError extends Error {}

/** A model did not answer, or its answer is of no use. */
export class ModelError extends PluginError {}
