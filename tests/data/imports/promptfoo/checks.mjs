export const isShort = (output, { config }) => output.length < config.most;
